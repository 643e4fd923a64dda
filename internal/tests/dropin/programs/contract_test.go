// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scribbler changes every object that an operation gets. The objects have to be clones.
type scribbler struct{ *target }

func (s scribbler) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj *service) error {
	err := s.target.Update(ctx, txn, revision, obj)
	obj.Handle = "scribbled"
	return err
}

func (s scribbler) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*service]) {
	s.target.UpdateBatch(ctx, txn, batch)
	for _, entry := range batch {
		entry.Object.Handle = "scribbled"
	}
}

func (s scribbler) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*service]) {
	s.target.DeleteBatch(ctx, txn, batch)
	for _, entry := range batch {
		entry.Object.Handle = "scribbled"
	}
}

// All readers of a table share its rows, so an operation must not change them.
func TestOperationsAreHandedClones(t *testing.T) {
	for _, batched := range []bool{false, true} {
		t.Run(fmt.Sprintf("batched=%t", batched), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, ops := newApp(t), scribbler{newTarget()}
				var batchOps reconciler.BatchOperations[*service]
				if batched {
					batchOps = ops
				}
				_, err := reconciler.Register(a.params, a.services,
					(*service).Clone, (*service).SetStatus, (*service).GetStatus, ops, batchOps, withQuickRetry)
				require.NoError(t, err)
				a.start()

				ops.fail("no room", 1)
				pending := wanted(1, "a")
				a.put(pending)
				a.awaitKind(reconciler.StatusKindError, 1)
				failed := a.get(1)
				ops.heal()
				a.awaitKind(reconciler.StatusKindDone, 1)
				assert.Empty(t, pending.Handle, "the inserted row must not change")
				assert.Equal(t, reconciler.StatusKindPending, pending.Status.Kind)
				assert.Equal(t, "scribbled", failed.Handle, "changes by a failed update are written as well")
				assert.Equal(t, reconciler.StatusKindError, failed.Status.Kind)

				last := wanted(1, "b")
				last.Status = reconciler.StatusDone()
				a.put(last)
				a.remove(1)
				eventually(t, func() bool { return ops.has() == "" }, "the deletion")
				assert.Empty(t, last.Handle, "the deleted row must not change")
			})
		})
	}
}

// enlister inserts a second service when it updates the first.
type enlister struct {
	*target
	app *app
}

func (e enlister) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, s *service) error {
	if s.ID == 1 {
		e.app.put(wanted(2, "enlisted"))
	}
	return e.target.Update(ctx, txn, revision, s)
}

func TestOperationsMayWriteToTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApp(t)
		ops := enlister{newTarget(), a}
		_, err := reconciler.Register(a.params, a.services,
			(*service).Clone, (*service).SetStatus, (*service).GetStatus, ops, nil)
		require.NoError(t, err)
		a.start()
		a.put(wanted(1, "a"))
		eventually(t, func() bool { return ops.has() == "1=a 2=enlisted" }, "both services")
		a.awaitKind(reconciler.StatusKindDone, 1, 2)
	})
}

// When the writes stop and the target works, the target equals the table and every row is Done, in whatever
// order writes and failures came.
func TestRandomChangesConverge(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { convergeFrom(t, seed) })
		})
	}
}

func convergeFrom(t *testing.T, seed uint64) {
	a, tg := newApp(t), newTarget()
	rng := rand.New(rand.NewPCG(seed, 1))
	if rng.IntN(2) == 0 {
		a.reconcileServices(tg, withQuickRetry)
	} else {
		a.reconcileBatches(tg, withQuickRetry)
	}
	a.start()
	const ids = 8
	present := map[uint64]bool{}
	for step := range 400 {
		id := uint64(rng.IntN(ids))
		switch rng.IntN(6) {
		case 0:
			if present[id] {
				a.remove(id)
				delete(present, id)
			}
		case 1:
			tg.fail("no room", id)
		case 2:
			tg.heal()
		case 3:
			pass(time.Duration(rng.IntN(300)) * time.Millisecond)
		default:
			a.put(wanted(id, fmt.Sprintf("step-%d", step)))
			present[id] = true
		}
	}
	tg.heal()
	rows := func(render func(*service) string) string {
		var rows []string
		for row := range a.services.All(a.db.ReadTxn()) {
			rows = append(rows, render(row))
		}
		return strings.Join(rows, " ")
	}
	undone := func() string {
		return rows(func(s *service) string {
			if s.Status.Kind == reconciler.StatusKindDone {
				return ""
			}
			return fmt.Sprintf("%d: %s", s.ID, s.Status)
		})
	}
	eventually(t, func() bool { return strings.TrimSpace(undone()) == "" }, "all rows to be done, these are not: %s", func() any { return undone() })
	pass(time.Minute)
	assert.Empty(t, strings.TrimSpace(undone()), "rows must stay done")
	assert.Equal(t, rows(func(s *service) string { return fmt.Sprintf("%d=%s", s.ID, s.Spec) }), tg.has())
	transcript(t, "rows", a.rows())
}
