// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

// set changes the settings of the loop.
func (e *env) set(change func(s *reconciler.Settings)) {
	e.Helper()
	require.NoError(e, e.loop.Reconfigure(change))
	synctest.Wait()
}

func TestOptionsSetTheSettings(t *testing.T) {
	rounds, operations, refreshes := rate.NewLimiter(1, 1), rate.NewLimiter(2, 2), rate.NewLimiter(3, 3)
	e := newEnv(t)
	cfg := e.config()
	cfg.Options = []reconciler.Option{
		reconciler.WithRoundLimits(7, rounds), reconciler.WithSettings(func(s *reconciler.Settings) {
			s.OperationLimiter, s.Concurrency, s.Timeout, s.Jitter, s.MaxRetries, s.BlockedRecheck = operations, 3, time.Second, 0.25, 9, time.Hour
		}),
		reconciler.WithRetry(time.Minute, time.Hour), reconciler.WithRefreshing(2*time.Hour, refreshes),
		reconciler.WithPruning(3 * time.Hour),
	}
	loop, err := reconciler.New(cfg)
	require.NoError(t, err)
	want := reconciler.Settings{
		RoundSize: 7, RoundLimiter: rounds, OperationLimiter: operations,
		Concurrency: 3, Timeout: time.Second,
		MinBackoff: time.Minute, MaxBackoff: time.Hour, Jitter: 0.25, MaxRetries: 9, BlockedRecheck: time.Hour,
		RefreshInterval: 2 * time.Hour, RefreshLimiter: refreshes, PruneInterval: 3 * time.Hour, ListTimeout: 30 * time.Second,
	}
	require.Equal(t, want, loop.Settings())

	want.RoundSize, want.Jitter, want.OperationLimiter = 8, 0, nil
	require.NoError(t, loop.Reconfigure(func(s *reconciler.Settings) {
		s.RoundSize, s.Jitter, s.OperationLimiter = 8, 0, nil
	}))
	require.Equal(t, want, loop.Settings())
}

// WithSettings sees the settings of earlier options, and later options see its changes.
func TestWithSettingsIsAppliedInTheOrderOfTheOptions(t *testing.T) {
	e := newEnv(t)
	loop, err := reconciler.New(e.config(
		reconciler.WithRetry(time.Second, time.Minute),
		reconciler.WithSettings(nil),
		reconciler.WithSettings(func(s *reconciler.Settings) {
			s.MinBackoff *= 2
			s.RoundSize, s.PruneInterval = 5, time.Minute
		}),
		reconciler.WithoutPruning(),
	))
	require.NoError(t, err)
	s := loop.Settings()
	require.Equal(t, 2*time.Second, s.MinBackoff)
	require.Equal(t, time.Minute, s.MaxBackoff)
	require.Equal(t, 5, s.RoundSize)
	require.Zero(t, s.PruneInterval)
}

func TestDefaultSettings(t *testing.T) {
	e := newEnv(t)
	cfg := e.config()
	cfg.Options = nil
	loop, err := reconciler.New(cfg)
	require.NoError(t, err)
	s := loop.Settings()
	require.Equal(t, rate.Limit(100), s.RefreshLimiter.Limit())
	s.RefreshLimiter = nil
	require.Equal(t, reconciler.Settings{
		RoundSize: 1000, Concurrency: 1, MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Minute, Jitter: 0.1,
		BlockedRecheck: time.Minute, PruneInterval: time.Hour, ListTimeout: 30 * time.Second,
	}, s)
}

// A bad value is an error that names the setting and the value. Then no setting changes, not even a
// valid one.
func TestBadSettingsAreNamedAndChangeNothing(t *testing.T) {
	closed := rate.NewLimiter(1, 0)
	inBubble(t, func(e *env) {
		before := e.loop.Settings()
		for want, change := range map[string]func(s *reconciler.Settings){
			"Settings.RoundSize is 0, must be at least 1":                          func(s *reconciler.Settings) { s.RoundSize = 0 },
			"Settings.RoundLimiter has rate 1 and burst 0, which never allows":     func(s *reconciler.Settings) { s.RoundLimiter = closed },
			"Settings.OperationLimiter has rate 1 and burst 0, which never allows": func(s *reconciler.Settings) { s.OperationLimiter = closed },
			"Settings.RefreshLimiter has rate 1 and burst 0, which never allows":   func(s *reconciler.Settings) { s.RefreshLimiter = closed },
			"Settings.Concurrency is 0, must be between 1 and 10000":               func(s *reconciler.Settings) { s.Concurrency = 0 },
			"Settings.Concurrency is 10001, must be between 1 and 10000":           func(s *reconciler.Settings) { s.Concurrency = 10_001 },
			"Settings.Timeout is -1s, must not be negative":                        func(s *reconciler.Settings) { s.Timeout = -time.Second },
			"Settings.MinBackoff is 0s, must be positive":                          func(s *reconciler.Settings) { s.MinBackoff = 0 },
			"Settings.MaxBackoff is 0s, must be positive":                          func(s *reconciler.Settings) { s.MaxBackoff = 0 },
			"Settings.MinBackoff is 1h0m0s, above MaxBackoff, which is 1m0s":       func(s *reconciler.Settings) { s.MinBackoff = time.Hour },
			"Settings.Jitter is 1.5, must be between 0 and 1":                      func(s *reconciler.Settings) { s.Jitter = 1.5 },
			"Settings.Jitter is NaN, must be between 0 and 1":                      func(s *reconciler.Settings) { s.Jitter = math.NaN() },
			"Settings.MaxRetries is -1, must not be negative":                      func(s *reconciler.Settings) { s.MaxRetries = -1 },
			"Settings.BreakerFailures is -1, must not be negative":                 func(s *reconciler.Settings) { s.BreakerFailures = -1 },
			"Settings.BlockedRecheck is -1s, must not be negative":                 func(s *reconciler.Settings) { s.BlockedRecheck = -time.Second },
			"Settings.RefreshInterval is -1s, must not be negative":                func(s *reconciler.Settings) { s.RefreshInterval = -time.Second },
			"Settings.PruneInterval is -1s, must not be negative":                  func(s *reconciler.Settings) { s.PruneInterval = -time.Second },
		} {
			err := e.loop.Reconfigure(func(s *reconciler.Settings) {
				s.BlockedRecheck = time.Hour
				change(s)
			})
			require.ErrorContains(e, err, want)
			require.ErrorContains(e, err, `reconciler "`)
			require.Equal(e, before, e.loop.Settings())
		}
	}, nil)
}

// The backoff and the retries of a failure follow the settings at the time of the failure.
func TestRetrySettingsAreChanged(t *testing.T) {
	withWorkers(t, []int{1, 4}, func(e *env, _ int) {
		e.target.failing("no")
		e.put(1, 1)
		e.pass(350 * time.Millisecond)
		require.Len(e, e.target.take(), 3, "after 100 and 200 ms")
		e.set(func(s *reconciler.Settings) { s.MinBackoff, s.MaxBackoff = time.Second, 2*time.Second })
		e.pass(400 * time.Millisecond)
		require.Len(e, e.target.take(), 1, "after the wait that had begun")
		e.pass(20 * time.Second)
		require.Len(e, e.target.take(), 10, "every two seconds")

		e.set(func(s *reconciler.Settings) { s.MaxRetries = 3 })
		e.pass(time.Minute)
		require.Len(e, e.target.take(), 1, "its retries are used up")
		require.Contains(e, e.get(1).Status.GetError(), "given up after")
		e.set(func(s *reconciler.Settings) { s.MaxRetries = 0 })
		e.put(2, 1)
		e.pass(time.Minute)
		require.Greater(e, len(e.target.take()), 20)
		e.target.failing("")
		e.pass(3 * time.Second)
		e.eachDone()
	})
}

func TestRefreshingIsTurnedOnAndOff(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, ids(1, 100)...)
		e.pass(time.Hour)
		require.Len(e, e.target.take(), 100)
		e.set(func(s *reconciler.Settings) { s.RefreshInterval = time.Minute })
		e.pass(time.Second)
		require.Len(e, e.target.take(), 100, "objects that are an hour old are due at once")
		e.pass(10 * time.Minute)
		require.InDelta(e, 1000, len(e.target.take()), 100)

		// Refresh slowly, and change the limiter in the middle.
		e.set(func(s *reconciler.Settings) { s.RefreshLimiter = rate.NewLimiter(rate.Every(time.Hour), 1) })
		e.pass(2 * time.Minute)
		require.LessOrEqual(e, len(e.target.take()), 2)
		e.set(func(s *reconciler.Settings) { s.RefreshLimiter = rate.NewLimiter(1, 1) })
		e.pass(time.Minute)
		require.InDelta(e, 60, len(e.target.take()), 3)

		// Turn refreshing off in the middle of a refresh.
		e.set(func(s *reconciler.Settings) { s.RefreshInterval = 0 })
		e.pass(2 * time.Second)
		e.target.take()
		e.pass(time.Hour)
		require.Empty(e, e.target.take())
		e.eachDone()
	}, nil, reconciler.WithoutPruning())
}

// Concurrent calls of Reconfigure run one after the other: each sees the result of the one before.
func TestReconfigureIsAtomic(t *testing.T) {
	withWorkers(t, []int{1, 4}, func(e *env, _ int) {
		e.target.takes(time.Millisecond)
		e.put(1, ids(1, 500)...)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for k := range 50 {
					err := e.loop.Reconfigure(func(s *reconciler.Settings) {
						s.MaxRetries++
						s.Concurrency, s.RoundSize, s.Timeout = 1+(i+k)%6, 1+(i*k)%20, time.Duration(1+k)*time.Second
						if k%10 == 9 {
							s.Jitter = -1
						}
					})
					assert.Equal(e, k%10 == 9, err != nil)
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
		require.Equal(e, 8*45, e.loop.Settings().MaxRetries)
		e.pass(time.Minute)
		e.eachDone()
	})
}

func TestBadOptionsAreNamedWithTheirValues(t *testing.T) {
	for want, option := range map[string]reconciler.Option{
		"WithOrphanBudget: 10 objects and fraction 0, but Config.Lister is nil": reconciler.WithOrphanBudget(10, 0),
	} {
		e := newEnv(t)
		_, err := reconciler.New(e.config(option))
		require.ErrorContains(e, err, want)
		require.ErrorContains(e, err, `reconciler "objects"`)
	}
}

// mistyped has a Prune method that no loop would call.
type mistyped struct{ *target }

func (mistyped) Prune(context.Context) error { return nil }

func TestAPruneMethodWithAnotherSignatureIsAnError(t *testing.T) {
	e := newEnv(t)
	cfg := e.config()
	cfg.Operations = mistyped{}
	_, err := reconciler.New(cfg)
	require.ErrorContains(t, err, "reconciler_test.mistyped.Prune is a func(context.Context) error, must be a func(")
}

func TestAllConfigErrorsAreReportedTogether(t *testing.T) {
	_, err := reconciler.New(reconciler.Config[*object]{
		Options: []reconciler.Option{
			reconciler.WithName("broken"), reconciler.WithRoundLimits(0, nil), reconciler.WithRetry(2, 1),
		},
	})
	for _, want := range []string{
		`reconciler "broken"`, "Config.DB is nil", "Config.Table is nil",
		"Config.Operations, BatchOperations and RoundOperations are all nil",
		"Settings.RoundSize is 0", "Settings.MinBackoff is 2ns, above MaxBackoff, which is 1ns",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestSomeStatusFunctionsAreAnErrorThatNamesTheMissing(t *testing.T) {
	e := newEnv(t)
	cfg := e.config()
	cfg.Clone, cfg.GetStatus = nil, nil
	_, err := reconciler.New(cfg)
	require.EqualError(e, err, "reconciler \"objects\": Config.Clone is nil, but SetStatus or GetStatus is set\nConfig.GetStatus is nil, but Clone or SetStatus is set")

	cfg = e.config()
	cfg.Clone, cfg.SetStatus, cfg.GetStatus = nil, nil, nil
	cfg.Merge = func(current, _ *object) *object { return current }
	_, err = reconciler.New(cfg)
	require.ErrorContains(e, err, "Config.Merge is set, but Config.Clone, SetStatus and GetStatus are not")
}

func TestContradictingOperationsAreAnError(t *testing.T) {
	e := newEnv(t)
	cfg := e.config()
	cfg.BatchOperations, cfg.RoundOperations = batchTarget{e.target}, roundTarget{e.target}
	_, err := reconciler.New(cfg)
	require.ErrorContains(e, err, "Config.BatchOperations (reconciler_test.batchTarget) and Config.RoundOperations (reconciler_test.roundTarget) are both set")
}

// batchOnly has no Prune.
type batchOnly struct {
	reconciler.BatchOperations[*object]
}

func TestMissingPrunerIsAnErrorOnlyWithPruning(t *testing.T) {
	e := newEnv(t)
	cfg := e.config(reconciler.WithPruning(time.Minute))
	cfg.Operations, cfg.BatchOperations = nil, batchOnly{batchTarget{e.target}}
	_, err := reconciler.New(cfg)
	require.ErrorContains(e, err, "Settings.PruneInterval is 1m0s, but Config.Pruner is nil")

	cfg.Options = nil
	_, err = reconciler.New(cfg)
	require.NoError(e, err)
	cfg.Options = exact(reconciler.WithPruning(time.Minute))
	cfg.Pruner = e.target
	_, err = reconciler.New(cfg)
	require.NoError(e, err)
}

// params returns the Params of a module in a hive that never starts.
func params(t *testing.T) (p reconciler.Params) {
	h := hive.New(statedb.Cell, job.Cell, cell.SimpleHealthCell, cell.Module("test", "Test",
		cell.Provide(job.Registry.NewGroup),
		cell.Invoke(func(got reconciler.Params) { p = got }),
	))
	require.NoError(t, h.Populate(hivetest.Logger(t)))
	return p
}

// Register refreshes by default, as the peer does. RegisterConfig does not, since refreshes without
// need have hurt users. An option overrides both defaults.
func TestRefreshDefaultsOfRegisterAndRegisterConfigDiffer(t *testing.T) {
	p := params(t)
	table, err := statedb.NewTable(p.DB, "objects", idIndex)
	require.NoError(t, err)
	register := func(options ...reconciler.Option) reconciler.Settings {
		r, err := reconciler.Register(p, table, (*object).Clone, (*object).SetStatus, (*object).GetStatus, newTarget(), nil, options...)
		require.NoError(t, err)
		return r.(*reconciler.Loop[*object]).Settings()
	}
	require.Equal(t, 30*time.Minute, register().RefreshInterval)
	require.EqualValues(t, 100, register().RefreshLimiter.Limit())
	require.NotSame(t, register().RefreshLimiter, register().RefreshLimiter, "reconcilers share no limiter")
	require.Zero(t, register(reconciler.WithRefreshing(0, nil)).RefreshInterval)
	require.Nil(t, register(reconciler.WithRefreshing(time.Hour, nil)).RefreshLimiter)

	loop, err := reconciler.RegisterConfig(p, reconciler.Config[*object]{
		Table: table, Operations: newTarget(),
		Clone: (*object).Clone, SetStatus: (*object).SetStatus, GetStatus: (*object).GetStatus,
	})
	require.NoError(t, err)
	require.Zero(t, loop.Settings().RefreshInterval)
}
