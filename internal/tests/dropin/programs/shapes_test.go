// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"errors"
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

// sysctl is an object that is a comparable struct, not a pointer.
type sysctl struct {
	Name, Value string
	Status      reconciler.Status
}

func (s sysctl) TableHeader() []string { return []string{"Name", "Value", "Status"} }
func (s sysctl) TableRow() []string    { return []string{s.Name, s.Value, s.Status.Kind.String()} }

// counter is operations that count deletions, and whose updates fail while they are broken.
type counter struct {
	broken  atomic.Bool
	deletes map[string]int
}

func (ops *counter) Update(context.Context, statedb.ReadTxn, statedb.Revision, sysctl) error {
	if ops.broken.Load() {
		return errors.New("unreachable")
	}
	return nil
}

func (ops *counter) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, s sysctl) error {
	ops.deletes[s.Name]++
	return nil
}

func (ops *counter) Prune(context.Context, statedb.ReadTxn, iter.Seq2[sysctl, statedb.Revision]) error {
	return nil
}

// sysctls is an app with a table of sysctls, and a reconciler of it.
type sysctls struct {
	*app
	*counter
	table statedb.RWTable[sysctl]
}

func newSysctls(a *app, opts ...reconciler.Option) sysctls {
	table, err := statedb.NewTable(a.db, "named", statedb.Index[sysctl, string]{
		Name:       "name",
		FromObject: func(s sysctl) index.KeySet { return index.NewKeySet(index.String(s.Name)) },
		FromKey:    index.String,
		Unique:     true,
	})
	require.NoError(a.t, err)
	ops := &counter{deletes: map[string]int{}}
	_, err = reconciler.Register(a.params, table,
		func(s sysctl) sysctl { return s },
		func(s sysctl, status reconciler.Status) sysctl { s.Status = status; return s },
		func(s sysctl) reconciler.Status { return s.Status }, ops, nil, append(opts, withQuickRetry)...)
	require.NoError(a.t, err)
	return sysctls{a, ops, table}
}

// change inserts or deletes an object.
func (a sysctls) change(change func(statedb.WriteTxn, sysctl) (sysctl, bool, error), s sysctl) {
	wtxn := a.db.WriteTxn(a.table)
	defer wtxn.Commit()
	_, _, err := change(wtxn, s)
	require.NoError(a.t, err)
}

func (a sysctls) put(name, value string) {
	a.change(a.table.Insert, sysctl{name, value, reconciler.StatusPending()})
}

// await waits until the table has these rows.
func (a sysctls) await(want string) {
	a.t.Helper()
	rows := func() string {
		var rows []string
		for s := range a.table.All(a.db.ReadTxn()) {
			rows = append(rows, strings.Join(s.TableRow(), " "))
		}
		return strings.Join(rows, ", ")
	}
	eventually(a.t, func() bool { return rows() == want }, "%s, have %s", want, func() any { return rows() })
}

func TestObjectsCanBeValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSysctls(newApp(t))
		a.start()
		a.put("ip_forward", "1")
		a.put("rp_filter", "2")
		a.await("ip_forward 1 Done, rp_filter 2 Done")
		a.broken.Store(true)
		a.put("rp_filter", "0")
		a.await("ip_forward 1 Done, rp_filter 0 Error")
		a.broken.Store(false)
		a.await("ip_forward 1 Done, rp_filter 0 Done")
		a.change(a.table.Delete, sysctl{Name: "ip_forward"})
		pass(time.Second)
		assert.Equal(t, map[string]int{"ip_forward": 1}, a.deletes)
	})
}
