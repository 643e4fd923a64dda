// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"golang.org/x/time/rate"
)

func TestAnOldObjectIsRefreshed(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
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
	}, reconciler.WithRefreshing(time.Minute, rate.NewLimiter(100, 1)))
}

func TestObjectsAreRefreshedAtTheInterval(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
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
	}, reconciler.WithRefreshing(time.Minute, rate.NewLimiter(100, 10)))
}

func TestAFailedRefreshIsRetried(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
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
	}, withQuickRetry, reconciler.WithRefreshing(time.Minute, rate.NewLimiter(100, 1)))
}

func TestRefreshingIsOffAtZero(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		a.put(wanted(1, "a"))
		pass(24 * time.Hour)
		assert.Len(t, tg.attemptsOf(1), 1)
		assert.Empty(t, a.healthOf("job-refresh"), "there is no refresh job")
	}, reconciler.WithRefreshing(0, nil))
}

func TestRefreshIntervalDefaultsToHalfAnHour(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		a.put(wanted(1, "a"))
		pass(29 * time.Minute)
		assert.Equal(t, "update(a)", tg.story(1))
		pass(time.Hour + time.Minute)
		assert.Equal(t, "update(a), refresh(a)", tg.story(1))
	})
}
