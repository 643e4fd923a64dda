// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// inSet is a row with a status.Set.
type inSet struct {
	ID       uint64
	Statuses status.Set
}

func (o *inSet) TableHeader() []string { return []string{"ID", "Status"} }
func (o *inSet) TableRow() []string    { return []string{fmt.Sprint(o.ID), o.Statuses.String()} }

func TestReconcilersOfOneSetWithTwoNamesAreNotDegraded(t *testing.T) {
	bubble(t, func(e *env, registry *inspect.Registry) {
		table, err := statedb.NewTable(e.db, "sets", statedb.Index[*inSet, uint64]{
			Name:       "id",
			FromObject: func(o *inSet) index.KeySet { return index.NewKeySet(index.Uint64(o.ID)) },
			FromKey:    index.Uint64,
			Unique:     true,
		})
		require.NoError(e, err)
		run := func(name string) *health {
			h := &health{}
			loop, err := reconciler.New(reconciler.Config[*inSet]{
				DB: e.db, Table: table, BatchOperations: nothing{}, Health: scopeless{h},
				Clone: func(o *inSet) *inSet { c := *o; return &c },
				SetStatus: func(o *inSet, s reconciler.Status) *inSet {
					o.Statuses = o.Statuses.Set(name, s)
					return o
				},
				GetStatus: func(o *inSet) reconciler.Status { return o.Statuses.Get(name) },
				Options:   exact(reconciler.WithRegistry(registry)),
			})
			require.NoError(e, err)
			ctx, cancel := context.WithCancel(e.Context())
			var ended sync.WaitGroup
			ended.Go(func() { loop.Run(ctx) })
			e.Cleanup(func() { cancel(); ended.Wait() })
			return h
		}
		lb, dns := run("lb"), run("dns")
		wtxn := e.db.WriteTxn(table)
		_, _, err = table.Insert(wtxn, &inSet{ID: 1, Statuses: status.NewSet("lb")})
		require.NoError(e, err)
		wtxn.Commit()
		synctest.Wait()
		again := run("dns")
		synctest.Wait()
		for h, want := range map[*health]string{lb: "OK, 1 object(s)", dns: sharedField, again: sharedField} {
			_, message, _ := h.Now()
			require.Equal(e, want, message)
		}
	})
}

// nothing implements batch operations that do nothing.
type nothing struct{}

func (nothing) UpdateBatch(context.Context, statedb.ReadTxn, []reconciler.BatchEntry[*inSet]) {}
func (nothing) DeleteBatch(context.Context, statedb.ReadTxn, []reconciler.BatchEntry[*inSet]) {}
