// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

func TestAnOldObjectIsRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg, reconciler.WithRefreshing(time.Minute, rate.NewLimiter(100, 1)))
		a.start()
		pass(10 * time.Second)

		// Done an hour ago, such as an object that was copied from another process.
		old := wanted(1, "old")
		old.Status = reconciler.StatusDone()
		old.Status.UpdatedAt = time.Now().Add(-time.Hour)
		a.put(old)
		pass(2 * time.Minute)
		assert.True(t, strings.HasPrefix(tg.story(1), "refresh(old)"), tg.story(1))
		a.awaitKind(reconciler.StatusKindDone, 1)
		assert.True(t, a.get(1).Status.UpdatedAt.After(old.Status.UpdatedAt))
		assert.Equal(t, "1=old", tg.has())
	})
}

func TestObjectsAreRefreshedAtTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg, reconciler.WithRefreshing(time.Minute, rate.NewLimiter(100, 10)))
		a.start()
		a.put(wanted(1, "a"), wanted(2, "b"))
		a.awaitKind(reconciler.StatusKindDone, 1, 2)
		pass(30 * time.Second)
		assert.Len(t, tg.allAttempts(), 2, "no refresh before the interval")

		// Another process changes the target; the refresh repairs it.
		tg.put(1, "drifted")
		pass(10 * time.Minute)
		a.awaitKind(reconciler.StatusKindDone, 1, 2)
		assert.Equal(t, "1=a 2=b", tg.has())
		for id := uint64(1); id <= 2; id++ {
			attempts := tg.attemptsOf(id)
			assert.GreaterOrEqual(t, len(attempts), 1+8)
			assert.LessOrEqual(t, len(attempts), 1+10)
			for i := 1; i < len(attempts); i++ {
				assert.Equal(t, "refresh", attempts[i].op)
				gap := attempts[i].at.Sub(attempts[i-1].at)
				assert.GreaterOrEqual(t, gap, time.Minute)
				assert.LessOrEqual(t, gap, 2*time.Minute)
			}
		}
		transcript(t, "1", tg.story(1))
	})
}

func TestAFailedRefreshIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg, withQuickRetry, reconciler.WithRefreshing(time.Minute, rate.NewLimiter(100, 1)))
		a.start()
		a.put(wanted(1, "a"))
		a.awaitKind(reconciler.StatusKindDone, 1)

		tg.fail("gone", 1)
		pass(2 * time.Minute)
		a.awaitKind(reconciler.StatusKindError, 1)
		assert.Equal(t, "gone", a.get(1).Status.GetError())
		a.awaitHealth("job-reconcile", "Degraded: 1 error(s) (gone)")
		tg.heal()
		a.awaitKind(reconciler.StatusKindDone, 1)
		a.awaitHealth("job-reconcile", "OK: OK, 1 object(s)")
		transcript(t, "1", tg.story(1))
	})
}

func TestADeletedObjectIsNotRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg, reconciler.WithRefreshing(time.Minute, nil))
		a.start()
		a.put(wanted(1, "a"), wanted(2, "b"))
		a.awaitKind(reconciler.StatusKindDone, 1, 2)
		a.remove(1)
		pass(5 * time.Minute)

		assert.Equal(t, "update(a), delete", tg.story(1))
		assert.Equal(t, "update(b), refresh(b)", tg.story(2), "refreshing works without a limiter")
		assert.Equal(t, "2=b", tg.has())
	})
}

func TestHealthReportsTheNextRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg, reconciler.WithRefreshing(time.Minute, rate.NewLimiter(100, 1)))
		a.start()
		a.awaitHealthPrefix("job-refresh", "OK: Next refresh in 1m0s")

		a.put(wanted(1, "a"))
		pass(5 * time.Minute)
		next, found := strings.CutPrefix(a.healthOf("job-refresh"), "OK: Next refresh in ")
		require.True(t, found, a.healthOf("job-refresh"))
		next, _, _ = strings.Cut(next, ",")
		d, err := time.ParseDuration(next)
		require.NoError(t, err)
		assert.LessOrEqual(t, d, time.Minute)
	})
}

func TestRefreshingIsOffAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg, reconciler.WithRefreshing(0, nil))
		a.start()
		a.put(wanted(1, "a"))
		pass(24 * time.Hour)
		assert.Len(t, tg.attemptsOf(1), 1)
		assert.Empty(t, a.healthOf("job-refresh"), "there is no refresh job")
	})
}

func TestRefreshIntervalDefaultsToHalfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg)
		a.start()
		a.put(wanted(1, "a"))
		pass(29 * time.Minute)
		assert.Equal(t, "update(a)", tg.story(1))
		pass(time.Hour + time.Minute)
		assert.Equal(t, "update(a), refresh(a)", tg.story(1))
	})
}
