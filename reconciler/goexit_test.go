// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

const goexitText = "the operation called runtime.Goexit"

// exiting makes the operations for which exits returns true call runtime.Goexit, as FailNow does in a
// fake.
func (x *target) exiting(exits func(c call) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.before = func(_ context.Context, c call) {
		if exits(c) {
			x.mu.Lock()
			x.end(c)
			x.mu.Unlock()
			runtime.Goexit()
		}
	}
}

// updatesUpTo selects the updates of the objects whose IDs are at most last.
func updatesUpTo(last uint64) func(c call) bool {
	return func(c call) bool { return c.op == "update" && c.id <= last }
}

// An operation on a worker that calls runtime.Goexit fails like any other. Its worker is replaced, and
// other operations and prunes continue.
func TestGoexitOnAWorkerIsAFailure(t *testing.T) {
	for _, kind := range operationKinds {
		t.Run(kind.name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.exiting(updatesUpTo(4))
				e.put(1, ids(1, 10)...)
				e.pass(20 * time.Millisecond)
				require.Contains(e, e.get(1).Status.GetError(), goexitText)
				level, message, _ := e.health.Now()
				require.Equal(e, cell.StatusDegraded, level)
				require.Contains(e, message, "error(s)")
				e.loop.Prune()
				e.pass(time.Minute)
				require.Contains(e, e.target.calls(), "prune(10)")

				e.target.exiting(updatesUpTo(0))
				e.pass(2 * time.Minute)
				e.eachDone()
				level, message, _ = e.health.Now()
				require.Equal(e, cell.StatusOK, level, message)
			}, kind.change, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }), reconciler.WithRoundLimits(1, nil), reconciler.WithoutPruning())
		})
	}
}

// runEnds starts a loop, calls then, and returns the result of Run, which must come within a minute.
func (e *env) runEnds(cfg reconciler.Config[*object], then func(loop *reconciler.Loop[*object])) error {
	loop, err := reconciler.New(cfg)
	require.NoError(e, err)
	ctx, cancel := context.WithCancel(e.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	synctest.Wait()
	then(loop)
	select {
	case err := <-ended:
		require.NoError(e, ctx.Err())
		return err
	case <-time.After(time.Minute):
		e.Fatal("Run has not returned after a minute")
		return nil
	}
}

// An operation in line runs on the goroutine of the loop. So runtime.Goexit ends the loop: Run returns
// an error that names the operation, and health is Degraded.
func TestGoexitInLineEndsTheLoopWithAnError(t *testing.T) {
	for _, kind := range operationKinds {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				cfg := e.config(reconciler.WithoutPruning(), reconciler.WithRefreshing(time.Hour, nil))
				if kind.change != nil {
					kind.change(e, &cfg)
				}
				e.target.exiting(func(c call) bool { return c.id == 3 })
				err := e.runEnds(cfg, func(loop *reconciler.Loop[*object]) {
					e.put(1, ids(1, 5)...)
					synctest.Wait()
					_, err := loop.Retry(t.Context())
					require.ErrorIs(t, err, inspect.ErrStopped)
				})
				require.ErrorContains(t, err, "update of ")
				require.ErrorContains(t, err, goexitText)
				level, _, told := e.health.Now()
				require.Equal(t, cell.StatusDegraded, level)
				require.ErrorContains(t, err, told.Error())
				require.Equal(t, reconciler.StatusKindPending, e.kind(3), "the next run begins with it")
			})
		})
	}
}

// The loop calls a prune on its own goroutine, whatever the number of workers.
func TestGoexitInAPruneEndsTheLoopWithAnError(t *testing.T) {
	for _, workers := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			cfg := e.config(reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithoutPruning())
			err := e.runEnds(cfg, func(loop *reconciler.Loop[*object]) {
				e.put(1, ids(1, 5)...)
				synctest.Wait()
				e.target.exiting(func(c call) bool { return c.op == "prune" })
				loop.Prune()
			})
			require.ErrorContains(t, err, goexitText)
			level, _, _ := e.health.Now()
			require.Equal(t, cell.StatusDegraded, level)
			e.eachDone()
		})
	}
}
