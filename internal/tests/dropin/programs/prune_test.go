// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
)

func TestPruneWaitsForTheTableToBeInitialized(t *testing.T) {
	for name, opt := range map[string]reconciler.Option{
		"at intervals": reconciler.WithPruning(10 * time.Second),
		"on demand":    reconciler.WithoutPruning(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, tg := newApp(t), newTarget()
				wtxn := a.db.WriteTxn(a.services)
				complete := a.services.RegisterInitializer(wtxn, "source")
				wtxn.Commit()
				r := a.reconcileServices(tg, opt)
				tg.put(7, "left over")
				a.start()
				a.put(wanted(1, "a"))
				a.awaitKind(reconciler.StatusKindDone, 1)
				r.Prune()
				pass(time.Minute)
				assert.Empty(t, tg.pruned())
				assert.Equal(t, "1=a 7=left over", tg.has())

				a.put(wanted(2, "b"))
				wtxn = a.db.WriteTxn(a.services)
				complete(wtxn)
				wtxn.Commit()
				eventually(t, func() bool { return len(tg.pruned()) > 0 }, "the prune at initialization")
				assert.Equal(t, []uint64{1, 2}, tg.pruned()[0])
				a.awaitKind(reconciler.StatusKindDone, 2)
				assert.Equal(t, "1=a 2=b", tg.has())
			})
		})
	}
}

func TestATableWithoutInitializersIsPrunedAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg)
		tg.put(7, "left over")
		a.put(wanted(1, "a"))
		a.start()
		a.awaitKind(reconciler.StatusKindDone, 1)
		eventually(t, func() bool { return tg.has() == "1=a" }, "the prune")
	})
}

func TestPruneRunsAtTheInterval(t *testing.T) {
	for name, test := range map[string]struct {
		interval time.Duration
		opts     []reconciler.Option
	}{"given": {10 * time.Second, []reconciler.Option{reconciler.WithPruning(10 * time.Second)}}, "by default": {time.Hour, nil}} {
		t.Run(name, func(t *testing.T) {
			reconcile(t, func(t *testing.T, a *app, tg *target) {
				for n := 1; n < 10; n++ {
					pass(test.interval - time.Second)
					assert.Len(t, tg.pruned(), n)
					tg.put(7, "left over")
					pass(time.Second)
					assert.Empty(t, tg.has())
				}
			}, test.opts...)
		})
	}
}

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

func TestPruneIteratesAllDesiredObjects(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		tg.fail("no room", 2)
		unset := wanted(3, "c")
		unset.Status = reconciler.Status{}
		a.put(wanted(1, "a"), wanted(2, "b"), unset, wanted(4, "d"))
		a.awaitKind(reconciler.StatusKindDone, 1, 4)
		a.awaitKind(reconciler.StatusKindError, 2)
		a.remove(4)

		a.reconciler.Prune()
		eventually(t, func() bool { return len(tg.pruned()) == 1 }, "the prune")
		assert.Equal(t, []uint64{1, 2, 3}, tg.pruned()[0], "done, failing and unset rows are all desired")
	}, reconciler.WithoutPruning(), withQuickRetry)
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
