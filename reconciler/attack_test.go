// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
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
