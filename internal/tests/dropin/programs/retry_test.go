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
