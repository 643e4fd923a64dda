// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// named is an object of another type than the services, whose row begins with its name.
type named interface {
	comparable
	TableHeader() []string
	TableRow() []string
}

// sysctl is an object that is a comparable struct, not a pointer.
type sysctl struct {
	Name, Value string
	Status      reconciler.Status
}

func (s sysctl) TableHeader() []string { return []string{"Name", "Value", "Status"} }
func (s sysctl) TableRow() []string    { return []string{s.Name, s.Value, s.Status.Kind.String()} }

// route is an object for several targets: it has a status for each of two, and a set of statuses for others.
type route struct {
	Prefix        string
	Kernel, Cloud reconciler.Status
	Others        reconciler.StatusSet
}

func (r *route) TableHeader() []string { return []string{"Prefix", "Kernel", "Cloud", "Others"} }
func (r *route) TableRow() []string {
	row := []string{r.Prefix, r.Kernel.Kind.String(), r.Cloud.Kind.String()}
	for name, s := range r.Others.All() {
		row = append(row, name+":"+s.Kind.String())
	}
	return row
}

func (r *route) Clone() *route {
	c := *r
	return &c
}

// counter is operations that count by name, and fail while they are broken.
type counter[Obj named] struct {
	broken           atomic.Bool
	updates, deletes map[string]int
}

func (ops *counter[Obj]) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, obj Obj) error {
	ops.updates[obj.TableRow()[0]]++
	if ops.broken.Load() {
		return errors.New("unreachable")
	}
	return nil
}

func (ops *counter[Obj]) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, obj Obj) error {
	ops.deletes[obj.TableRow()[0]]++
	return nil
}

func (ops *counter[Obj]) Prune(context.Context, statedb.ReadTxn, iter.Seq2[Obj, statedb.Revision]) error {
	return nil
}

// shaped is an app with a table of named objects.
type shaped[Obj named] struct {
	*app
	table statedb.RWTable[Obj]
}

func newShaped[Obj named](t *testing.T, a *app) shaped[Obj] {
	table, err := statedb.NewTable(a.db, "named", statedb.Index[Obj, string]{
		Name:       "name",
		FromObject: func(obj Obj) index.KeySet { return index.NewKeySet(index.String(obj.TableRow()[0])) },
		FromKey:    index.String,
		Unique:     true,
	})
	require.NoError(t, err)
	return shaped[Obj]{a, table}
}

func (a shaped[Obj]) reconcile(
	clone func(Obj) Obj, set func(Obj, reconciler.Status) Obj, get func(Obj) reconciler.Status, opts ...reconciler.Option,
) *counter[Obj] {
	ops := &counter[Obj]{updates: map[string]int{}, deletes: map[string]int{}}
	_, err := reconciler.Register(a.params, a.table, clone, set, get, ops, nil, append(opts, withQuickRetry)...)
	require.NoError(a.t, err)
	return ops
}

// change inserts or deletes an object.
func (a shaped[Obj]) change(change func(statedb.WriteTxn, Obj) (Obj, bool, error), obj Obj) {
	wtxn := a.db.WriteTxn(a.table)
	defer wtxn.Commit()
	_, _, err := change(wtxn, obj)
	require.NoError(a.t, err)
}

func (a shaped[Obj]) put(obj Obj)    { a.change(a.table.Insert, obj) }
func (a shaped[Obj]) delete(obj Obj) { a.change(a.table.Delete, obj) }

// await waits until the table has these rows.
func (a shaped[Obj]) await(want string) {
	a.t.Helper()
	rows := func() string {
		var rows []string
		for obj := range a.table.All(a.db.ReadTxn()) {
			rows = append(rows, strings.Join(obj.TableRow(), " "))
		}
		return strings.Join(rows, ", ")
	}
	eventually(a.t, func() bool { return rows() == want }, "%s, have %s", want, func() any { return rows() })
}

func reconcileSysctls(a shaped[sysctl], opts ...reconciler.Option) *counter[sysctl] {
	return a.reconcile(
		func(s sysctl) sysctl { return s },
		func(s sysctl, status reconciler.Status) sysctl { s.Status = status; return s },
		func(s sysctl) reconciler.Status { return s.Status }, opts...)
}

func TestObjectsCanBeValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newShaped[sysctl](t, newApp(t))
		ops := reconcileSysctls(a)
		a.start()
		put := func(name, value string) { a.put(sysctl{name, value, reconciler.StatusPending()}) }
		put("ip_forward", "1")
		put("rp_filter", "2")
		a.await("ip_forward 1 Done, rp_filter 2 Done")
		ops.broken.Store(true)
		put("rp_filter", "0")
		a.await("ip_forward 1 Done, rp_filter 0 Error")
		ops.broken.Store(false)
		a.await("ip_forward 1 Done, rp_filter 0 Done")
		a.delete(sysctl{Name: "ip_forward"})
		pass(time.Second)
		assert.Equal(t, map[string]int{"ip_forward": 1}, ops.deletes)
	})
}

func TestThreeReconcilersShareAStatusSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newShaped[*route](t, newApp(t))
		reconcile := func(name string) *counter[*route] {
			return a.reconcile((*route).Clone,
				func(r *route, s reconciler.Status) *route { r.Others = r.Others.Set(name, s); return r },
				func(r *route) reconciler.Status { return r.Others.Get(name) }, reconciler.WithName(name))
		}
		x, y := reconcile("x"), reconcile("y")
		a.start()
		a.put(&route{Prefix: "::/0", Others: reconciler.NewStatusSet()})
		a.await("::/0   x:Done y:Done")

		// The third is registered in a running hive. The object has no status of that name, which counts as
		// pending.
		z := reconcile("z")
		a.await("::/0   x:Done y:Done z:Done")
		updates := func() string {
			pass(time.Minute)
			return fmt.Sprint(x.updates["::/0"], y.updates["::/0"], z.updates["::/0"])
		}
		assert.Equal(t, "1 1 1", updates(), "one change, one update")

		// A change makes all three statuses pending.
		for r := range a.table.All(a.db.ReadTxn()) {
			r = r.Clone()
			r.Others = r.Others.Pending()
			assert.Regexp(t, `^Pending: x y z \(`, r.Others.String(), "a pending set keeps the names")
			a.put(r)
		}
		assert.Equal(t, "2 2 2", updates())
		a.await("::/0   x:Done y:Done z:Done")
	})
}
