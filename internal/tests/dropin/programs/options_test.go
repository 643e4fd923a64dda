// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"golang.org/x/time/rate"
)

// The status of the first objects is written before the last ones are attempted.
func TestLimiterSpacesRoundsAndEachWritesItsStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg, reconciler.WithRoundLimits(2, rate.NewLimiter(rate.Every(time.Second), 1)))
		for id := range uint64(8) {
			a.put(wanted(id, "a"))
		}
		start := time.Now()
		a.start()
		a.awaitKind(reconciler.StatusKindDone, 0)
		assert.Equal(t, reconciler.StatusKindPending, a.get(7).Status.Kind)
		a.awaitKind(reconciler.StatusKindDone, 0, 1, 2, 3, 4, 5, 6, 7)
		took := time.Since(start)
		assert.GreaterOrEqual(t, took, 2*time.Second, "four rounds, one a second")
		assert.LessOrEqual(t, took, 10*time.Second)
	})
}

func TestChangesBetweenRoundsAreOneUpdate(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		pass(time.Minute)
		for range 100 {
			a.put(wanted(1, "old"))
			pass(time.Second)
		}
		a.put(wanted(1, "new"))
		a.awaitKind(reconciler.StatusKindDone, 1)
		assert.Equal(t, "1=new", tg.has())
		assert.LessOrEqual(t, len(tg.attemptsOf(1)), 15, "one update for each round, not for each change")
	}, reconciler.WithRoundLimits(1000, rate.NewLimiter(rate.Every(10*time.Second), 1)))
}

// The last of contradicting options counts. Programs keep options in variables.
func TestLaterOptionsOverrideEarlierOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		defaults := []reconciler.Option{
			reconciler.WithName("first"),
			reconciler.WithoutPruning(),
			reconciler.WithRetry(time.Hour, time.Hour),
			reconciler.WithRefreshing(time.Minute, nil),
		}
		a.reconcileServices(tg, append(defaults,
			reconciler.WithName("second"),
			reconciler.WithPruning(time.Minute),
			withQuickRetry,
			reconciler.WithRefreshing(0, nil),
		)...)
		a.start()
		tg.fail("no room", 1)
		a.put(wanted(1, "a"))
		a.awaitHealth("job-reconcile-second", "Degraded: 1 error(s) (no room)")
		tg.heal()
		a.awaitKind(reconciler.StatusKindDone, 1)
		pass(5 * time.Minute)
		assert.GreaterOrEqual(t, len(tg.pruned()), 5)
		assert.Equal(t, "update(a) failed, update(a)", tg.story(1))
	})
}
