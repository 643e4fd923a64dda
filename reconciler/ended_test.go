// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
		"PauseObjects": nil,
	} {
		t.Run(name, func(t *testing.T) {
			everyExit(t, func(e *env, cfg reconciler.Config[*object]) {
				if set != nil {
					set(&cfg)
				}
				e.target.lasting(lasting)
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

// patientBatches is a target whose DeleteBatch runs until the reconciler stops.
type patientBatches struct{ batchTarget }

func (p patientBatches) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	number := p.next(ctx)
	<-ctx.Done()
	for i, e := range batch {
		batch[i].Result = p.do(ctx, call{op: "delete", id: e.Object.ID, revision: e.Revision, batch: number})
	}
}

// A stop between DeleteBatch and UpdateBatch leaves the updates out. No wait reports them as
// attempted or applied, whether it began before or after the stop.
func TestStopBetweenBatchesAppliesNothingThatWasNotRun(t *testing.T) {
	for _, workers := range []int{1, 2} {
		for _, retried := range []bool{false, true} {
			t.Run(fmt.Sprintf("workers %d, with a retry %t", workers, retried), func(t *testing.T) {
				inBubble(t, func(e *env) { stopBetweenBatches(e, retried) },
					func(e *env, cfg *reconciler.Config[*object]) {
						cfg.BatchOperations = patientBatches{batchTarget{e.target}}
					},
					reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithoutPruning())
			})
		}
	}
}

func stopBetweenBatches(e *env, retried bool) {
	e.put(1, 1)
	if retried {
		e.target.deciding(func(c call) error {
			if c.id == 2 {
				return errors.New("no")
			}
			return nil
		})
		e.put(1, 2)
	}
	synctest.Wait()
	if retried {
		// The retry comes with the batch.
		e.loop.Pause()
		e.pass(time.Second)
	}
	until := e.write(func(wtxn statedb.WriteTxn) {
		_, _, _ = e.table.Delete(wtxn, &object{ID: 1})
		_, _, _ = e.table.Insert(wtxn, &object{ID: 3, Status: reconciler.StatusPending()})
	})
	e.loop.Resume()
	synctest.Wait()
	e.target.take()
	waits := []<-chan waited{
		e.wait(until, reconciler.Applied), e.wait(until, reconciler.Attempted),
		e.waitFor(reconciler.Applied, 3), e.waitFor(reconciler.Attempted, 3),
	}
	gone := e.waitFor(reconciler.Applied, 1)
	synctest.Wait()
	e.stop()
	require.Equal(e, []string{"delete(1)"}, e.target.calls(), "the operations that ran")
	require.Equal(e, reconciler.StatusKindPending, e.kind(3))
	for i, over := range waits {
		require.ErrorIs(e, (<-over).err, inspect.ErrStopped, "wait %d", i)
	}
	require.NoError(e, (<-gone).err, "the deletion was carried out")
	for _, m := range []reconciler.Milestone{reconciler.Attempted, reconciler.Applied} {
		require.ErrorIs(e, (<-e.wait(until, m)).err, inspect.ErrStopped, "%s, after the stop", m)
	}
	ctx, cancel := context.WithTimeout(e.Context(), time.Second)
	defer cancel()
	revision, _, err := e.loop.WaitUntilReconciled(ctx, until)
	require.ErrorIs(e, err, context.DeadlineExceeded)
	require.Less(e, revision, until)
}
