// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waitResult has the results of WaitUntilReconciled.
type waitResult struct {
	revision, retryLowWatermark statedb.Revision
	err                         error
}

func wait(ctx context.Context, r reconciler.Reconciler[*service], until statedb.Revision) waitResult {
	revision, low, err := r.WaitUntilReconciled(ctx, until)
	return waitResult{revision, low, err}
}

// waitFor waits for at most patience.
func waitFor(t *testing.T, r reconciler.Reconciler[*service], until statedb.Revision) waitResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res := wait(ctx, r, until)
	require.NoError(t, res.err, "waiting for revision %d, at %d", until, res.revision)
	return res
}

func TestWaitReturnsWhenTheRevisionIsReconciled(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		entered, proceed := make(chan struct{}, 10), make(chan struct{})
		tg.beforeOps = func(ctx context.Context, _ string, _ *service) {
			entered <- struct{}{}
			select {
			case <-proceed:
			case <-ctx.Done():
			}
		}
		assert.Equal(t, waitResult{}, wait(t.Context(), a.reconciler, 0), "nothing to wait for")

		until := a.put(wanted(1, "a"))
		results := make(chan waitResult, 1)
		go func() { results <- wait(t.Context(), a.reconciler, until) }()
		<-entered
		pass(time.Hour)
		assert.Empty(t, results, "the update is still running")

		close(proceed)
		res := <-results
		require.NoError(t, res.err)
		assert.GreaterOrEqual(t, res.revision, until)
		assert.Zero(t, res.retryLowWatermark)
		assert.Equal(t, "1=a", tg.has())
	})
}

func TestWaitReturnsTheErrorOfItsContext(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		tg.beforeOps = func(ctx context.Context, _ string, _ *service) { <-ctx.Done() }
		until := a.put(wanted(1, "a"))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		res := wait(ctx, a.reconciler, until)
		assert.ErrorIs(t, res.err, context.DeadlineExceeded)
		assert.Less(t, res.revision, until)

		ctx, cancel = context.WithCancel(t.Context())
		results := make(chan waitResult, 1)
		go func() { results <- wait(ctx, a.reconciler, until) }()
		pass(time.Minute)
		assert.Empty(t, results)
		cancel()
		assert.ErrorIs(t, (<-results).err, context.Canceled)
	})
}

func TestWaitReportsAFailingDelete(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		a.put(wanted(1, "a"))
		a.awaitKind(reconciler.StatusKindDone, 1)

		tg.fail("in use", 1)
		until := a.remove(1)
		res := waitFor(t, a.reconciler, until)
		assert.Equal(t, until, res.retryLowWatermark)
		tg.heal()
		eventually(t, func() bool { return waitFor(t, a.reconciler, until).retryLowWatermark == 0 }, "the deletion")
		assert.Empty(t, tg.has())
	}, withQuickRetry)
}

func TestWaitReportsTheLowestFailedRevision(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		tg.fail("no room", 1, 2, 3)
		first := a.put(wanted(3, "c"))
		second := a.put(wanted(1, "a"))
		third := a.put(wanted(2, "b"))
		assert.Equal(t, first, waitFor(t, a.reconciler, third).retryLowWatermark)

		// The failures end one by one, oldest first.
		tg.heal()
		last := a.remove(3)
		assert.Equal(t, second, waitFor(t, a.reconciler, last).retryLowWatermark)
		last = a.remove(1)
		assert.Equal(t, third, waitFor(t, a.reconciler, last).retryLowWatermark)
		last = a.remove(2)
		assert.Zero(t, waitFor(t, a.reconciler, last).retryLowWatermark)
	}, reconciler.WithRetry(time.Hour, time.Hour))
}

// Programs wait for the revision of the table, whatever the last write was.
func TestWaitForTheTablesRevision(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		now := func() statedb.Revision { return a.services.Revision(a.db.ReadTxn()) }

		a.put(wanted(1, "a"))
		a.awaitKind(reconciler.StatusKindDone, 1)
		assert.Greater(t, now(), statedb.Revision(1), "the status has been written")
		waitFor(t, a.reconciler, now())

		done := wanted(2, "b")
		done.Status = reconciler.StatusDone()
		a.put(done)
		waitFor(t, a.reconciler, now())

		a.remove(1)
		waitFor(t, a.reconciler, now())
		assert.Empty(t, tg.has())
	})
}

// When a wait returns, the status is in the table and the operation in the metrics.
func TestStatusIsWrittenWhenWaitReturns(t *testing.T) {
	m := &recorder{}
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		for id := range uint64(50) {
			until := a.put(wanted(id, "a"))
			_, _, err := a.reconciler.WaitUntilReconciled(t.Context(), until)
			require.NoError(t, err)
			require.Equal(t, reconciler.StatusKindDone, a.get(id).Status.Kind)
			require.Len(t, look(m, func() []string { return m.ops }), int(id)+1)
		}
	}, reconciler.WithMetrics(m), reconciler.WithoutPruning())
}
