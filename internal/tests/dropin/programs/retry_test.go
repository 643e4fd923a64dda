// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 2 * time.Second
)

var withQuickRetry = reconciler.WithRetry(minBackoff, maxBackoff)

func TestAFailedUpdateIsRetriedUntilItSucceeds(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {

		tg.fail("no room", 1)
		a.put(wanted(1, "first"), wanted(2, "first"))
		a.awaitKind(reconciler.StatusKindError, 1)
		a.awaitKind(reconciler.StatusKindDone, 2)
		assert.Equal(t, "no room", a.get(1).Status.GetError())
		assert.False(t, a.get(1).Status.IsPendingOrRefreshing())
		transcript(t, "rows while failing", a.rows())

		eventually(t, func() bool { return len(tg.attemptsOf(1)) > 4 }, "some retries")
		tg.heal()
		a.awaitKind(reconciler.StatusKindDone, 1)
		assert.Nil(t, a.get(1).Status.Error)
		assert.Equal(t, "handle-1", a.get(1).Handle, "the retry's change of the object is in the table")
		assert.Len(t, tg.attemptsOf(2), 1, "the healthy object is not updated again")
		transcript(t, "1", tg.story(1))
		transcript(t, "rows", a.rows())
	}, withQuickRetry)
}

func TestRetriesBackOffFromMinToMax(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {

		tg.fail("no room", 1)
		a.put(wanted(1, "first"))
		pass(patience)

		attempts := tg.attemptsOf(1)
		require.Greater(t, len(attempts), 6)
		// Jitter shortens a backoff by up to a tenth, the pause between rounds lengthens it a little.
		const slack = 20 * time.Millisecond
		previous := time.Duration(0)
		for i := 1; i < len(attempts); i++ {
			gap := attempts[i].at.Sub(attempts[i-1].at)
			assert.GreaterOrEqual(t, gap, minBackoff*9/10)
			assert.LessOrEqual(t, gap, maxBackoff+slack)
			assert.GreaterOrEqual(t, gap, previous*8/10, "gap %d after %s", i, previous)
			previous = gap
		}
		assert.GreaterOrEqual(t, previous, maxBackoff*9/10, "the backoff grows to its maximum")
	}, withQuickRetry)
}

func TestAReinsertEndsTheRetriesOfADelete(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		a.put(wanted(1, "first"))
		a.awaitKind(reconciler.StatusKindDone, 1)

		tg.fail("in use", 1)
		a.remove(1)
		eventually(t, func() bool { return len(tg.attemptsOf(1)) > 2 }, "some retries")
		tg.heal()
		a.put(wanted(1, "second"))
		a.awaitKind(reconciler.StatusKindDone, 1)
		pass(time.Minute)

		assert.Equal(t, "1=second", tg.has(), "the deletion must not be retried after the insert")
		a.awaitHealth("job-reconcile", "OK: OK, 1 object(s)")
		transcript(t, "1", tg.story(1))
	}, withQuickRetry)
}

func TestADeleteEndsTheRetriesOfAnUpdate(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {

		tg.fail("no room", 1)
		a.put(wanted(1, "first"))
		a.awaitKind(reconciler.StatusKindError, 1)
		tg.heal()
		a.remove(1)
		eventually(t, func() bool { return strings.HasSuffix(tg.story(1), "delete") }, "the deletion")
		n := len(tg.attemptsOf(1))
		pass(time.Minute)

		assert.Len(t, tg.attemptsOf(1), n, "the update must not be retried after the deletion")
		assert.Empty(t, tg.has())
		a.awaitHealth("job-reconcile", "OK: OK, 0 object(s)")
	}, withQuickRetry)
}

func TestAChangedFailingObjectIsUpdated(t *testing.T) {
	// The backoff is long, so that the change and not a retry causes the next update.
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		tg.fail("no room", 1)
		a.put(wanted(1, "first"))
		a.awaitKind(reconciler.StatusKindError, 1)
		pass(10 * time.Minute)
		tg.heal()
		changed := a.get(1).Clone()
		changed.Spec = "second"
		a.put(changed.SetStatus(reconciler.StatusPending()))
		a.awaitKind(reconciler.StatusKindDone, 1)

		assert.Equal(t, "1=second", tg.has())
		n := len(tg.attemptsOf(1))
		pass(10 * time.Minute)
		assert.Len(t, tg.attemptsOf(1), n, "the old object must not be retried")
		transcript(t, "1", tg.story(1))
	}, reconciler.WithRetry(5*time.Second, time.Hour))
}

func TestAChangedErrorTextIsShown(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {

		tg.fail("no room", 1)
		a.put(wanted(1, "first"))
		a.awaitHealth("job-reconcile", "Degraded: 1 error(s) (no room)")
		tg.fail("no route", 1)
		eventually(t, func() bool { return a.get(1).Status.GetError() == "no route" }, "the new text in the status")
		a.awaitHealth("job-reconcile", "Degraded: 1 error(s) (no route)")
	}, withQuickRetry)
}

func TestHealthCountsFailingObjectsAndNamesTen(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {

		for id := uint64(1); id <= 12; id++ {
			tg.fail(fmt.Sprintf("no room for %d", id), id)
			a.put(wanted(id, "first"))
		}
		eventually(t, func() bool { return strings.HasPrefix(a.healthOf("job-reconcile"), "Degraded: 12 error(s)") },
			"twelve errors, health is %q", func() any { return a.healthOf("job-reconcile") })
		health := a.healthOf("job-reconcile")
		assert.Equal(t, 10, strings.Count(health, "no room for "), health)
		assert.Contains(t, health, "\n2 further errors omitted")

		tg.heal()
		a.awaitHealth("job-reconcile", "OK: OK, 12 object(s)")
	}, withQuickRetry)
}
