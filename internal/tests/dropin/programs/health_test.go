// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
)

func TestHealthOfAnUnnamedReconciler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg, withQuickRetry)
		a.start()
		a.awaitHealth("job-reconcile", "OK: OK, 0 object(s)")
		a.awaitHealthPrefix("job-refresh", "OK: Next refresh in 30m0s")

		a.put(wanted(1, "a"), wanted(2, "b"), wanted(3, "c"))
		a.awaitHealth("job-reconcile", "OK: OK, 3 object(s)")
		tg.fail("no room", 2)
		a.put(wanted(2, "c"))
		a.awaitHealth("job-reconcile", "Degraded: 1 error(s) (no room)")
		tg.heal()
		a.awaitHealth("job-reconcile", "OK: OK, 3 object(s)")
		a.remove(1, 2)
		a.awaitHealth("job-reconcile", "OK: OK, 1 object(s)")

		// Objects that were inserted as Done are counted as well.
		done := wanted(5, "e")
		done.Status = reconciler.StatusDone()
		a.put(done)
		a.awaitHealth("job-reconcile", "OK: OK, 2 object(s)")
	})
}

func TestHealthOfNamedReconcilers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg, reconciler.WithName("services"))
		a.start()
		a.put(wanted(1, "a"))
		a.awaitHealth("job-reconcile-services", "OK: OK, 1 object(s)")
		a.awaitHealthPrefix("job-refresh-services", "OK: Next refresh in 30m0s")
		assert.Empty(t, a.healthOf("job-reconcile"))
		assert.Empty(t, a.healthOf("job-refresh"))
	})
}

func TestHealthIsRemovedWhenAReconcilerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg)
		a.start()
		a.put(wanted(1, "a"))
		a.awaitHealth("job-reconcile", "OK: OK, 1 object(s)")
		a.stop()
		pass(time.Second)
		assert.Empty(t, a.healthOf("job-reconcile"))
		assert.Empty(t, a.healthOf("job-refresh"))
	})
}
