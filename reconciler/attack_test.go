// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// everyExit runs a test of a loop that ends by itself, with each kind of operations, with one worker
// and with four.
func everyExit(t *testing.T, test func(e *env, cfg reconciler.Config[*object]), opts ...reconciler.Option) {
	for _, kind := range []string{"single", "batches", "rounds"} {
		for _, workers := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d worker(s)", kind, workers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newEnv(t)
					cfg := e.config(append([]reconciler.Option{
						reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }),
					}, opts...)...)
					operate(kind)(e, &cfg)
					test(e, cfg)
				})
			})
		}
	}
}

// hasEnded requires that the loop has ended with err, and that this is the latest report of health.
func (e *env) hasEnded(err error) {
	e.Helper()
	require.ErrorContains(e, err, goexitText)
	level, message, told := e.health.Now()
	require.Equal(e, cell.StatusDegraded, level)
	require.Equal(e, "The reconciler has ended", message)
	require.ErrorContains(e, err, told.Error())
}

// If any function of the program calls runtime.Goexit on the goroutine of the loop, once or repeatedly,
// Run returns an error, health is Degraded, and waits end with an error.
func TestFunctionThatCallsGoexitEndsTheLoopWithAnError(t *testing.T) {
	exit := func(o *object) bool {
		if o.ID == 20 {
			runtime.Goexit()
		}
		return false
	}
	// When the loop ends, some operations are running, others have finished, and some wait for a
	// worker.
	lasting := func(c call) time.Duration { return time.Duration(1+c.id%3) * time.Second }
	for name, set := range map[string]func(cfg *reconciler.Config[*object]){
		"SetStatus": func(cfg *reconciler.Config[*object]) {
			cfg.SetStatus = func(o *object, s reconciler.Status) *object { exit(o); return o.SetStatus(s) }
		},
		"GetStatus": func(cfg *reconciler.Config[*object]) {
			cfg.GetStatus = func(o *object) reconciler.Status { exit(o); return o.GetStatus() }
		},
		"Class": func(cfg *reconciler.Config[*object]) {
			cfg.ErrorClass = func(error) string { runtime.Goexit(); return "" }
		},
		"PauseObjects": nil,
	} {
		t.Run(name, func(t *testing.T) {
			everyExit(t, func(e *env, cfg reconciler.Config[*object]) {
				if set != nil {
					set(&cfg)
				}
				e.target.lasting(lasting)
				if name == "Class" {
					e.target.failing("no")
				}
				err := e.runEnds(cfg, func(loop *reconciler.Loop[*object]) {
					if set == nil {
						loop.PauseObjects(exit)
					}
					e.put(1, ids(1, 9)...)
					time.Sleep(1500 * time.Millisecond)
					_, err := loop.Wait(e.Context(), e.put(1, 20), reconciler.Applied)
					require.ErrorIs(e, err, inspect.ErrStopped)
				})
				e.hasEnded(err)
			})
		})
	}
}

// If an operation calls runtime.Goexit, and ErrorClass does so as well when it is called for the
// outcome, the loop still ends only once, with an error.
func TestGoexitInOperationAndClassEndsRunWithAnError(t *testing.T) {
	everyExit(t, func(e *env, cfg reconciler.Config[*object]) {
		e.target.exiting(func(c call) bool { return c.id == 3 })
		cfg.ErrorClass = func(error) string { runtime.Goexit(); return "" }
		e.hasEnded(e.runEnds(cfg, func(*reconciler.Loop[*object]) { e.put(1, ids(1, 9)...) }))
	})
}

// If the goroutine of a worker ends while it clones an object, the operation is not run, and fails like
// any other. The row in the table does not change.
func TestGoexitInCloneOnAWorkerIsAFailure(t *testing.T) {
	var exits atomic.Int32
	for _, kind := range []string{"single", "batches", "rounds"} {
		var p passes
		inBubble(t, func(e *env) {
			exits.Store(1)
			e.put(1, ids(1, 5)...)
			e.pass(20 * time.Millisecond)
			require.Contains(e, e.get(3).Status.GetError(), goexitText)
			e.pass(time.Minute)
			e.eachDone()
			require.Less(e, p.Load(), int64(100), "passes")
		}, func(e *env, cfg *reconciler.Config[*object]) {
			operate(kind)(e, cfg)
			cfg.Clone = func(o *object) *object {
				if o.ID == 3 && exits.CompareAndSwap(1, 0) {
					runtime.Goexit()
				}
				return o.Clone()
			}
			p.count(e, cfg)
		}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }), reconciler.WithoutPruning())
	}
}

// A loop that has ended waits for a stuck operation before Run returns. Health reports the end without
// waiting.
func TestHealthReportsTheEndBesideAStuckOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		cfg := e.config(reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = 4, time.Second }))
		stuck := e.target.stick(1)
		cfg.SerialBy = func(o *object) string {
			if o.ID == 2 {
				runtime.Goexit()
			}
			return ""
		}
		err := e.runEnds(cfg, func(*reconciler.Loop[*object]) {
			e.put(1, 1)
			e.pass(10 * time.Second)
			e.put(1, 2)
			e.pass(time.Hour)
			_, message, _ := e.health.Now()
			require.Equal(t, "The reconciler has ended", message)
			stuck.free(1)
		})
		e.hasEnded(err)
		require.Equal(t, reconciler.StatusKindPending, e.kind(1), "nothing is written after the end")
	})
}

// A refresh is marked on the goroutine of the loop. So runtime.Goexit in a function of the program ends the
// loop, as in an operation in line, and leaves the table unlocked.
func TestGoexitInARefreshIsAnErrorOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		cfg := e.config(reconciler.WithoutPruning(), reconciler.WithRefreshing(time.Hour, nil))
		cfg.Clone = func(o *object) *object {
			if o.ID == 3 && o.Status.Kind == reconciler.StatusKindDone {
				runtime.Goexit()
			}
			return o.Clone()
		}
		err := e.runEnds(cfg, func(*reconciler.Loop[*object]) {
			e.put(1, ids(1, 5)...)
			e.pass(2 * time.Hour)
		})
		require.ErrorContains(t, err, "has ended in a function of the program")
		require.ErrorContains(t, err, goexitText)
		level, _, told := e.health.Now()
		require.Equal(t, cell.StatusDegraded, level)
		require.ErrorContains(t, err, told.Error())
		e.put(2, 1)
		require.Equal(t, reconciler.StatusKindDone, e.kind(2), "no mark is committed")
	})
}

// A refresh of everything reaches every object exactly once, also if the settings of refreshing change
// meanwhile.
func TestRefreshOfAllSurvivesReconfigure(t *testing.T) {
	everyWay(t, func(e *env) {
		e.put(1, ids(1, 20)...)
		e.pass(time.Second)
		e.target.take()
		_, err := e.loop.Refresh(e.Context())
		require.NoError(e, err)
		e.pass(2500 * time.Millisecond)
		e.set(func(s *reconciler.Settings) { s.RefreshLimiter = nil })
		e.pass(time.Minute)
		got := map[uint64]int{}
		for _, c := range e.target.take() {
			got[c.id]++
		}
		for _, id := range ids(1, 20) {
			require.Equal(e, 1, got[id], "object %d", id)
		}
	}, reconciler.WithRefreshing(0, rate.NewLimiter(1, 1)))
}

// A refresh that waits for the end of a pause uses none of the loop's time, so it does not delay the
// next refresh.
func TestRefreshAfterAPauseIsNotDelayed(t *testing.T) {
	everyWay(t, func(e *env) {
		e.put(1, ids(1, 20)...)
		e.pass(time.Second)
		e.target.take()
		e.loop.Pause()
		_, err := e.loop.Refresh(e.Context())
		require.NoError(e, err)
		e.pass(8 * time.Hour)
		e.loop.Resume()
		e.pass(time.Second)
		require.Len(e, e.target.take(), 20)
		_, err = e.loop.Refresh(e.Context())
		require.NoError(e, err)
		e.pass(time.Second)
		require.Len(e, e.target.take(), 20)
	})
}

// Invariant 6 (DESIGN, section 6): a prune that is due waits for a hung operation. Meanwhile it delays other objects only for a short time. It runs when the operation returns.
func TestPruneHoldsNothingBackForAHungOperation(t *testing.T) {
	for _, opts := range [][]reconciler.Option{
		nil, {reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = 10 * time.Second })},
	} {
		for _, kind := range operationKinds {
			var p passes
			inBubble(t, func(e *env) {
				prunes := e.target.pruneTimes()
				stuck := e.target.stick(1)
				e.put(1, 1)
				e.pass(time.Second)
				e.loop.Prune()
				e.pass(time.Second)
				var longest time.Duration
				for i := range 200 {
					start := time.Now()
					e.put(i, 2)
					for e.kind(2) != reconciler.StatusKindDone {
						e.pass(10 * time.Millisecond)
					}
					longest = max(longest, time.Since(start))
					e.pass(time.Minute)
				}
				require.Less(e, longest, 15*time.Second)
				require.Empty(e, prunes())
				require.Less(e, p.during(func() { e.pass(time.Hour) }), int64(100), "passes in an hour")
				stuck.free(1)
				e.pass(time.Second)
				require.Len(e, prunes(), 1)
				e.eachDone()
			}, func(e *env, cfg *reconciler.Config[*object]) {
				if kind.change != nil {
					kind.change(e, cfg)
				}
				p.count(e, cfg)
			}, append(opts, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }), reconciler.WithPruning(24*365*time.Hour))...)
		}
	}
}

// An object that should probe for the breaker may have to wait for a stuck operation of
// its group. Then another object probes instead, and the breaker closes when the target is up.
func TestProbeBehindAStuckOperationOfItsGroupIsReplaced(t *testing.T) {
	for _, kind := range operationKinds {
		t.Run(kind.name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				down := func(c call) error {
					if c.id >= 10 {
						return errors.New("down")
					}
					return nil
				}
				e.target.deciding(down)
				for _, id := range ids(10, 12) {
					e.putIn("a", 1, id)
				}
				for _, id := range ids(13, 20) {
					e.putIn(fmt.Sprint(id), 1, id)
				}
				e.pass(100 * time.Millisecond)
				_, message, _ := e.health.Now()
				require.Contains(e, message, "breaker open")
				stuck := e.target.stick(1)
				e.putIn("a", 1, 1)
				e.pass(10 * time.Minute)
				e.target.deciding(nil)
				e.pass(10 * time.Second)
				require.Empty(e, e.notDone(ids(13, 20)...))
				_, message, _ = e.health.Now()
				require.NotContains(e, message, "breaker")
				stuck.free(1)
				e.pass(time.Minute)
				e.eachDone()
			}, both(serially(byNote), kind.change),
				reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = 4, time.Second }),
				reconciler.WithRoundLimits(1, nil), reconciler.WithoutPruning(),
				reconciler.WithBreaker(reconciler.Breaker{Failures: 3, Probes: 1, MaxInterval: time.Second}))
		})
	}
}

// deleteAndPut deletes object 1 and inserts object 2 in one transaction: one round with two batch
// calls.
func (e *env) deleteAndPut() {
	e.write(func(wtxn statedb.WriteTxn) {
		_, _, err := e.table.Delete(wtxn, &object{ID: 1})
		require.NoError(e, err)
		_, _, err = e.table.Insert(wtxn, &object{ID: 2, Value: 1, Status: reconciler.StatusPending()})
		require.NoError(e, err)
	})
}

// The two batch calls of a round are timed separately: health does not report two calls of 40 s as one
// stuck call of 80 s.
func TestCallsOfABatchAreTimedOneByOne(t *testing.T) {
	for _, workers := range []int{1, 4} {
		inBubble(t, func(e *env) {
			e.put(1, 1)
			e.pass(time.Second)
			e.target.takes(40 * time.Second)
			e.deleteAndPut()
			e.pass(5 * time.Minute)
			for _, told := range e.health.History() {
				require.NotContains(e, told, "stuck")
			}
			e.eachDone()
		}, operate("batches"), reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
	}
}

// If two calls of a round hang one after the other, health names only the one that hangs now.
func TestSecondHungCallOfARoundIsNamedAlone(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.target.takes(40 * time.Minute)
		e.deleteAndPut()
		for i, call := range []string{"delete of ", "update of "} {
			e.pass(10 * time.Minute)
			_, message, err := e.health.Now()
			require.Equal(e, "1 operation(s) stuck", message)
			require.ErrorContains(e, err, call)
			require.Equal(e, 1, strings.Count(err.Error(), "running since"), err)
			require.Len(e, e.health.History(), []int{3, 5}[i], "%v", e.health.History())
			e.pass(30*time.Minute + time.Second)
			level, message, _ := e.health.Now()
			require.Equal(e, cell.StatusOK, level, "after the call returned: %s", message)
		}
		e.eachDone()
	}, operate("batches"), reconciler.WithoutPruning())

	// The same with the first update and the prune after it.
	inBubble(t, func(e *env) {
		for _, call := range []string{"update of ", "prune, "} {
			e.pass(10 * time.Minute)
			_, message, err := e.health.Now()
			require.Equal(e, "1 operation(s) stuck", message)
			require.ErrorContains(e, err, call)
			require.Equal(e, 1, strings.Count(err.Error(), "running since"), err)
			e.pass(30*time.Minute + time.Second)
			level, message, _ := e.health.Now()
			require.Equal(e, cell.StatusOK, level, "after the call returned: %s", message)
		}
		e.eachDone()
	}, func(e *env, _ *reconciler.Config[*object]) {
		e.target.before = func(context.Context, call) { time.Sleep(40 * time.Minute) }
		e.put(1, 1)
	})
}

// The first sweep waits for a stuck operation of the initial load: the target may still get its object.
// Other objects do not wait.
func TestFirstSweepWaitsForAStuckOperation(t *testing.T) {
	loading(t, func(e *env, s *lister, done func()) {
		stuck := e.target.stick(1)
		s.strays(100)
		e.put(1, 1, 2)
		e.pass(time.Millisecond)
		done()
		e.pass(time.Hour)
		require.Equal(e, reconciler.StatusKindDone, e.kind(2))
		require.Empty(e, listings(time.Now(), s.take()))
		stuck.free(1)
		e.pass(2 * time.Minute)
		require.Len(e, listings(time.Now(), s.take()), 1)
		require.NotContains(e, e.target.holds(), uint64(100))
		e.eachDone()
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = 2, time.Second }), reconciler.WithRoundLimits(1, nil))
}
