// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

func TestAReconcilerCanBeRegisteredToARunningHive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.start()
		until := a.put(wanted(1, "a"), wanted(2, "b"))
		pass(time.Hour)

		r := a.reconcileServices(tg)
		waitFor(t, r, until)
		a.awaitKind(reconciler.StatusKindDone, 1, 2)
		assert.Equal(t, "1=a 2=b", tg.has())
		a.put(wanted(3, "c"))
		a.awaitKind(reconciler.StatusKindDone, 3)
		a.awaitHealth("job-reconcile", "OK: OK, 3 object(s)")
	})
}

// A program can fill in Params itself, with its own job group and module ID.
func TestParamsCanBeMadeByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, tg, m := newApp(t), newTarget(), &recorder{}
		a.start()
		r, err := reconciler.Register(
			reconciler.Params{
				In:             cell.In{},
				Log:            a.log,
				DB:             a.db,
				JobGroup:       a.params.JobGroup,
				ModuleID:       cell.FullModuleID{"by-hand"},
				DefaultMetrics: m,
			},
			a.services,
			func(s *service) *service { c := *s; return &c },
			func(s *service, status reconciler.Status) *service { s.Status = status; return s },
			func(s *service) reconciler.Status { return s.Status },
			reconciler.Operations[*service](tg),
			nil,
		)
		require.NoError(t, err)
		waitFor(t, r, a.put(wanted(1, "a")))
		assert.Equal(t, "by-hand/", look(m, func() string { return m.ids[0] }))
	})
}

func TestHealthOfANamedReconcilerLastsUntilItStops(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		a.put(wanted(1, "a"))
		a.awaitHealth("job-reconcile-services", "OK: OK, 1 object(s)")
		a.awaitHealthPrefix("job-refresh-services", "OK: Next refresh in 30m0s")
		assert.Empty(t, a.healthOf("job-reconcile"))
		assert.Empty(t, a.healthOf("job-refresh"))

		a.stop()
		pass(time.Second)
		assert.Empty(t, a.healthOf("job-reconcile-services"))
		assert.Empty(t, a.healthOf("job-refresh-services"))
	}, reconciler.WithName("services"))
}

func TestWaitersOfAStoppedReconcilerAreReleasedByTheirContext(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		waitFor(t, a.reconciler, a.put(wanted(1, "a")))
		a.stop()
		a.reconciler.Prune() // must neither block nor panic
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := a.reconciler.WaitUntilReconciled(ctx, 1000)
		assert.Error(t, err)
		assert.Equal(t, "1=a", tg.has())
	})
}

func TestRegisterRejectsInvalidArguments(t *testing.T) {
	a, tg := newApp(t), newTarget()
	type args struct {
		table statedb.RWTable[*service]
		clone func(*service) *service
		set   func(*service, reconciler.Status) *service
		get   func(*service) reconciler.Status
		ops   reconciler.Operations[*service]
		opts  []reconciler.Option
	}
	good := func() args {
		return args{a.services, (*service).Clone, (*service).SetStatus, (*service).GetStatus, tg, nil}
	}
	register := func(args args) error {
		r, err := reconciler.Register(a.params, args.table, args.clone, args.set, args.get, args.ops, nil, args.opts...)
		if err != nil {
			assert.Nil(t, r)
		}
		return err
	}
	for name, spoil := range map[string]func(*args){
		"no table":                  func(args *args) { args.table = nil },
		"no clone function":         func(args *args) { args.clone = nil },
		"no setStatus function":     func(args *args) { args.set = nil },
		"no getStatus function":     func(args *args) { args.get = nil },
		"no operations":             func(args *args) { args.ops = nil },
		"round size 0":              func(args *args) { args.opts = options(reconciler.WithRoundLimits(0, rate.NewLimiter(1, 1))) },
		"negative round size":       func(args *args) { args.opts = options(reconciler.WithRoundLimits(-1, rate.NewLimiter(1, 1))) },
		"negative refresh interval": func(args *args) { args.opts = options(reconciler.WithRefreshing(-1, rate.NewLimiter(1, 1))) },
		"negative prune interval":   func(args *args) { args.opts = options(reconciler.WithPruning(-time.Second)) },
		"zero minimum backoff":      func(args *args) { args.opts = options(reconciler.WithRetry(0, time.Second)) },
		"negative minimum backoff":  func(args *args) { args.opts = options(reconciler.WithRetry(-1, time.Second)) },
		"zero maximum backoff":      func(args *args) { args.opts = options(reconciler.WithRetry(time.Second, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			args := good()
			spoil(&args)
			assert.Error(t, register(args))
		})
	}
	assert.NoError(t, register(good()))
}

func options(opts ...reconciler.Option) []reconciler.Option { return opts }

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

func TestRefreshIntervalDefaultsToHalfAnHour(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {
		a.put(wanted(1, "a"))
		pass(29 * time.Minute)
		assert.Equal(t, "update(a)", tg.story(1))
		pass(time.Hour + time.Minute)
		assert.Equal(t, "update(a), refresh(a)", tg.story(1))
	})
}

func TestRowsThatAreNotPendingAreIgnored(t *testing.T) {
	reconcile(t, func(t *testing.T, a *app, tg *target) {

		done, unset, failed := wanted(1, "done"), wanted(2, "unset"), wanted(4, "failed")
		done.Status = reconciler.StatusDone()
		unset.Status = reconciler.Status{}
		failed.Status = reconciler.StatusError(errors.New("elsewhere"))
		a.put(done, unset, failed, wanted(3, "pending"))
		a.awaitKind(reconciler.StatusKindDone, 3)
		pass(10 * time.Second)

		assert.Equal(t, "3=pending", tg.has())
		assert.Same(t, done, a.get(1), "a Done row must not be written")
		assert.Same(t, unset, a.get(2), "a row without a status must not be written")
		assert.Same(t, failed, a.get(4), "a row with an error from elsewhere must not be written")
		transcript(t, "rows", a.rows())
	})
}
