// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
)

func TestPruneOnDemand(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		busy := make(chan struct{})
		tg.beforeOps = func(_ context.Context, _ string, s *service) {
			if s.ID == 2 {
				<-busy
			}
		}
		a.put(wanted(1, "a"))
		a.awaitKind(reconciler.StatusKindDone, 1)
		pass(3 * time.Hour)
		assert.Empty(t, tg.pruned(), "WithoutPruning")

		tg.put(7, "left over")
		a.reconciler.Prune()
		eventually(t, func() bool { return tg.has() == "1=a" }, "the prune")
		pass(3 * time.Hour)
		assert.Len(t, tg.pruned(), 1)

		// Prune does not block. Many calls while the reconciler is busy lead to one prune.
		a.put(wanted(2, "b"))
		pass(time.Second)
		for range 100 {
			a.reconciler.Prune()
		}
		close(busy)
		pass(time.Minute)
		assert.Len(t, tg.pruned(), 2)
	}, reconciler.WithoutPruning())
}

func TestAFailedPruneIsInHealthAndMetrics(t *testing.T) {
	m := reconciler.NewUnpublishedExpVarMetrics()
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		a.put(wanted(1, "a"))
		a.awaitKind(reconciler.StatusKindDone, 1)
		assert.Nil(t, m.PruneCountVar.Get("app"))

		tg.failPrunes("no permission")
		tg.put(7, "left over")
		a.reconciler.Prune()
		a.awaitHealth("job-reconcile", "Degraded: 1 error(s) (prune: no permission)")
		assert.Equal(t, "1", m.PruneCountVar.Get("app").String())
		assert.Equal(t, "1", m.PruneTotalErrorsVar.Get("app").String())
		assert.Equal(t, "1", m.PruneCurrentErrorsVar.Get("app").String())
		assert.Equal(t, statedb.Revision(2), a.services.Revision(a.db.ReadTxn()), "a prune writes no status")

		tg.heal()
		a.reconciler.Prune()
		a.awaitHealth("job-reconcile", "OK: OK, 1 object(s)")
		assert.Equal(t, "0", m.PruneCurrentErrorsVar.Get("app").String())
		assert.Equal(t, "1=a", tg.has())
	}, reconciler.WithoutPruning(), reconciler.WithMetrics(m))
}

func TestHealthShowsFailedPruneBesideFailingObjects(t *testing.T) {
	// One retry in an hour, so that no round runs between the prune and the check of health.
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		tg.fail("no room", 1)
		a.put(wanted(1, "a"))
		a.awaitHealth("job-reconcile", "Degraded: 1 error(s) (no room)")
		tg.failPrunes("no permission")
		a.reconciler.Prune()
		eventually(t, func() bool { return strings.HasPrefix(a.healthOf("job-reconcile"), "Degraded: 2 error(s) (") },
			"two errors, health is %q", func() any { return a.healthOf("job-reconcile") })
		assert.Contains(t, a.healthOf("job-reconcile"), "prune: no permission")
		assert.Contains(t, a.healthOf("job-reconcile"), "no room")
	}, reconciler.WithoutPruning(), reconciler.WithRetry(time.Hour, time.Hour))
}
