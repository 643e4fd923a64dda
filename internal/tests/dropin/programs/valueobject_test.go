// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

var sysctlByName = statedb.Index[sysctl, string]{
	Name:       "name",
	FromObject: func(s sysctl) index.KeySet { return index.NewKeySet(index.String(s.Name)) },
	FromKey:    index.String,
	Unique:     true,
}

// sysctlOps implements operations on a map.
type sysctlOps struct {
	kernel map[string]string
	broken atomic.Bool
}

func (ops *sysctlOps) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, s sysctl) error {
	if ops.broken.Load() {
		return errors.New("read only")
	}
	ops.kernel[s.Name] = s.Value
	return nil
}

func (ops *sysctlOps) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, s sysctl) error {
	delete(ops.kernel, s.Name)
	return nil
}

func (ops *sysctlOps) Prune(context.Context, statedb.ReadTxn, iter.Seq2[sysctl, statedb.Revision]) error {
	return nil
}

func TestObjectsCanBeValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, ops := newApp(t), &sysctlOps{kernel: map[string]string{}}
		sysctls, err := statedb.NewTable(a.db, "sysctls", sysctlByName)
		require.NoError(t, err)
		_, err = reconciler.Register(a.params, sysctls,
			func(s sysctl) sysctl { return s },
			func(s sysctl, status reconciler.Status) sysctl { s.Status = status; return s },
			func(s sysctl) reconciler.Status { return s.Status },
			ops, nil, withQuickRetry)
		require.NoError(t, err)
		a.start()

		put := func(name, value string) {
			wtxn := a.db.WriteTxn(sysctls)
			_, _, err := sysctls.Insert(wtxn, sysctl{Name: name, Value: value, Status: reconciler.StatusPending()})
			require.NoError(t, err)
			wtxn.Commit()
		}
		rows := func() string {
			var rows []any
			for s := range sysctls.All(a.db.ReadTxn()) {
				rows = append(rows, s.TableRow())
			}
			return fmt.Sprint(rows...)
		}
		await := func(want string) {
			t.Helper()
			eventually(t, func() bool { return rows() == want }, "%s, have %s", want, func() any { return rows() })
		}

		put("ip_forward", "1")
		put("rp_filter", "2")
		await("[ip_forward 1 Done] [rp_filter 2 Done]")
		ops.broken.Store(true)
		put("rp_filter", "0")
		await("[ip_forward 1 Done] [rp_filter 0 Error]")
		ops.broken.Store(false)
		await("[ip_forward 1 Done] [rp_filter 0 Done]")
		assert.Equal(t, map[string]string{"ip_forward": "1", "rp_filter": "0"}, ops.kernel)

		wtxn := a.db.WriteTxn(sysctls)
		_, _, err = sysctls.Delete(wtxn, sysctl{Name: "ip_forward"})
		require.NoError(t, err)
		wtxn.Commit()
		pass(time.Second)
		assert.Equal(t, map[string]string{"rp_filter": "0"}, ops.kernel)
	})
}
