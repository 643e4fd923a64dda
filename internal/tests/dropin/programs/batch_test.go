// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

// reconcileBatches registers a reconciler for the services with the batch operations of the target, and with
// its single operations, which Register requires as well.
func (a *app) reconcileBatches(target *target, opts ...reconciler.Option) {
	a.t.Helper()
	_, err := reconciler.Register(a.params, a.services,
		(*service).Clone, (*service).SetStatus, (*service).GetStatus,
		target, target, opts...)
	require.NoError(a.t, err)
}

func TestDeletionsRunBeforeUpdatesInARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileBatches(tg)
		a.start()
		a.put(wanted(1, "first"))
		a.awaitKind(reconciler.StatusKindDone, 1)

		wtxn := a.db.WriteTxn(a.services)
		_, _, err := a.services.Insert(wtxn, wanted(2, "first"))
		require.NoError(t, err)
		_, _, err = a.services.Delete(wtxn, &service{ID: 1})
		require.NoError(t, err)
		_, _, err = a.services.Insert(wtxn, wanted(3, "first"))
		require.NoError(t, err)
		wtxn.Commit()
		a.awaitKind(reconciler.StatusKindDone, 2, 3)

		assert.Equal(t, "2=first 3=first", tg.has())
		transcript(t, "batches", strings.Join(tg.batched(), ", "))
	})
}

func TestEachBatchEntryHasItsOwnResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileBatches(tg, withQuickRetry)
		a.start()

		tg.fail("no room", 2, 4)
		a.put(wanted(1, "a"), wanted(2, "b"), wanted(3, "c"), wanted(4, "d"))
		a.awaitKind(reconciler.StatusKindDone, 1, 3)
		a.awaitKind(reconciler.StatusKindError, 2, 4)
		assert.Equal(t, "no room", a.get(2).Status.GetError())
		transcript(t, "rows while failing", a.rows())
		a.awaitHealth("job-reconcile", "Degraded: 2 error(s) (no room\nno room)")

		eventually(t, func() bool { return len(tg.attemptsOf(2)) > 2 && len(tg.attemptsOf(4)) > 2 }, "some retries")
		tg.heal()
		a.awaitKind(reconciler.StatusKindDone, 2, 4)
		assert.Equal(t, "handle-4", a.get(4).Handle, "the retry's change of the object is in the table")
		assert.Len(t, tg.attemptsOf(1), 1)

		tg.fail("in use", 1)
		a.remove(1, 2)
		eventually(t, func() bool { return tg.has() == "1=a 3=c 4=d" }, "the deletion that succeeds")
		a.awaitHealth("job-reconcile", "Degraded: 1 error(s) (in use)")
		tg.heal()
		eventually(t, func() bool { return tg.has() == "3=c 4=d" }, "the deletion that is retried")
		a.awaitHealth("job-reconcile", "OK: OK, 2 object(s)")

		transcript(t, "1", tg.story(1))
		transcript(t, "2", tg.story(2))
		transcript(t, "rows", a.rows())
	})
}

func TestABatchIsNoLargerThanTheRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileBatches(tg, reconciler.WithRoundLimits(3, rate.NewLimiter(1000, 1)))
		ids := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
		for _, id := range ids {
			a.put(wanted(id, "first"))
		}
		a.start()
		a.awaitKind(reconciler.StatusKindDone, ids...)

		assert.Equal(t, []string{"update[1 2 3]", "update[4 5 6]", "update[7 8]"}, tg.batched())
		a.remove(ids...)
		eventually(t, func() bool { return tg.has() == "" }, "the deletions")
		for _, batch := range tg.batched() {
			assert.LessOrEqual(t, len(strings.Fields(batch)), 3, batch)
		}
	})
}
