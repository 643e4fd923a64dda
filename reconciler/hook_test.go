// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/trace"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

type spanKey struct{}

// spans is a hook that records its calls.
type spans struct {
	mu    sync.Mutex
	ended []string
}

func (s *spans) hook(ctx context.Context, op reconciler.OperationInfo) (context.Context, func(error)) {
	name := fmt.Sprintf("%s %s %s x%d, attempt %d", op.Reconciler, op.Operation, op.Key, op.Objects, op.Attempt)
	return context.WithValue(ctx, spanKey{}, name), func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append(s.ended, fmt.Sprintf("%s: %v", name, err))
	}
}

func (s *spans) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.ended
	s.ended = nil
	return ended
}

// Each call has its own span: the operation finds it in its context, and the span gets the error.
func TestHookWrapsEachOperation(t *testing.T) {
	s := &spans{}
	inBubble(t, func(e *env) {
		found := 0
		e.target.before = func(ctx context.Context, c call) {
			if ctx.Value(spanKey{}) != nil {
				found++
			}
		}
		fails := true
		e.target.deciding(func(call) error {
			if fails {
				fails = false
				return errors.New("no")
			}
			return nil
		})
		e.put(1, 7)
		e.pass(time.Second)
		e.remove(7)
		e.pass(time.Second)
		require.Equal(e, []string{
			"objects update 7 x1, attempt 1: no",
			"objects update 7 x1, attempt 2: <nil>",
			"objects delete 7 x1, attempt 1: <nil>",
		}, s.take())
		require.Equal(e, 3, found)
	}, nil, reconciler.WithOperationHook(s.hook))
}

// A batch is one call, and so is a round of deletions or updates. A panic is the error of its span.
func TestHookWrapsEachBatch(t *testing.T) {
	for _, kind := range []string{"batches", "rounds"} {
		s := &spans{}
		eachConcurrency(t, kind, func(e *env) {
			e.put(1, 1, 2, 3)
			e.pass(time.Second)
			require.Equal(e, []string{"objects update 1 x3, attempt 1: <nil>"}, s.take())
			e.remove(2, 3)
			e.pass(time.Second)
			require.Equal(e, []string{"objects delete 2 x2, attempt 1: <nil>"}, s.take())
			e.target.deciding(func(call) error { panic("oops") })
			e.put(1, 7)
			synctest.Wait()
			require.Equal(e, []string{"objects update 7 x1, attempt 1: panic in batch: oops"}, s.take())
		}, operate(kind), reconciler.WithOperationHook(s.hook))
	}
}

// A panic in a hook fails only its operation. A hook that returns nil for both values changes
// nothing.
func TestHookThatPanicsFailsItsOperation(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		e.pass(10 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindError, e.kind(1))
		require.Contains(e, e.get(1).Status.GetError(), "panic in update: the hook")
		require.Equal(e, reconciler.StatusKindDone, e.kind(2))
		require.EqualValues(e, 1, e.loop.Figures().Panics)
	}, nil, reconciler.WithOperationHook(func(_ context.Context, op reconciler.OperationInfo) (context.Context, func(error)) {
		if op.Key == "1" {
			panic("the hook")
		}
		return nil, nil
	}))
}

// Rounds and operations are regions of an execution trace.
func TestTraceHasRegions(t *testing.T) {
	var buf bytes.Buffer
	require.NoError(t, trace.Start(&buf))
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.remove(1)
		e.pass(time.Second)
		e.eachDone()
	}, nil)
	trace.Stop()
	for _, name := range []string{"reconcile round", "update", "delete"} {
		require.Contains(t, buf.String(), name)
	}
}

// loopWaits holds every call that waits for a loop. The row with ID 9 does not exist.
var loopWaits = map[string]func(ctx context.Context, l *reconciler.Loop[*object]) error{
	"Retry": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, all := l.Retry(ctx)
		_, one := l.Retry(ctx, "1")
		return bothAre(reconciler.ErrInOperation, all, one)
	},
	"Wait": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, attempted := l.Wait(ctx, 1, reconciler.Attempted)
		_, applied := l.Wait(ctx, 1000, reconciler.Applied)
		return bothAre(reconciler.ErrInOperation, attempted, applied)
	},
	"WaitAll": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, all := l.WaitAll(ctx, reconciler.Attempted)
		_, _, until := l.WaitUntilReconciled(ctx, 1000)
		return bothAre(reconciler.ErrInOperation, all, until)
	},
	"WaitFor": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, row := l.WaitFor(ctx, reconciler.Applied, &object{ID: 1})
		_, deletion := l.WaitFor(ctx, reconciler.Attempted, &object{ID: 9})
		return bothAre(reconciler.ErrInOperation, row, deletion)
	},
	"WaitKey": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, row := l.WaitKey(ctx, "1", reconciler.Attempted)
		_, none := l.WaitKey(ctx, "9", reconciler.Attempted)
		return bothAre(reconciler.ErrInOperation, row, none)
	},
}

// bothAre returns want if both errors are want, and an error that has both otherwise.
func bothAre(want, one, other error) error {
	if errors.Is(one, want) && errors.Is(other, want) {
		return want
	}
	return fmt.Errorf("not both are %q: %v, %v", want, one, other)
}

// An operation that waits for its own loop would wait for itself. It gets an error at once, with
// every kind of operations, in line and on workers. A prune is an operation as well.
func TestOperationCannotWaitForItsOwnLoop(t *testing.T) {
	for name, wait := range loopWaits {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(e *env) {
				e.hook(func(ctx context.Context, c call) {
					began := time.Now()
					// The deadline lets the test fail instead of hang.
					ctx, cancel := context.WithTimeout(ctx, time.Hour)
					defer cancel()
					assert.ErrorIs(e, wait(ctx, e.loop), reconciler.ErrInOperation, c)
					assert.Zero(e, time.Since(began), "waited")
				})
				e.put(1, 1)
				e.pass(time.Second)
				e.remove(1)
				e.loop.Prune()
				e.pass(24 * time.Hour)
				require.Len(e, e.target.take(), 3)
			})
		})
	}
}

// An operation may wait for another loop.
func TestWaitForAnotherLoopInAnOperationIsLegal(t *testing.T) {
	withHooks(t, func(e *env, h *hooked) {
		target := newTarget()
		cfg := e.config(reconciler.WithName("other"))
		cfg.Operations, cfg.SetStatus, cfg.GetStatus = target, (*object).SetOther, (*object).GetOther
		other := e.start(cfg)
		h.update = func(ctx context.Context, o *object) error {
			_, err := other.WaitFor(ctx, reconciler.Applied, o)
			_, retried := other.Retry(ctx)
			return errors.Join(err, retried)
		}
		e.put(1, 1)
		e.pass(time.Second)
		e.status(1, reconciler.StatusKindDone, "")
		require.Equal(e, map[uint64]int{1: 1}, target.holds())
	})
}

// An operation may ask for the state of its object or of its loop, and gets an answer without
// waiting. In line the loop is busy with this operation, and the answer shows it.
func TestOperationAsksItsOwnLoopWithoutWaiting(t *testing.T) {
	withHooks(t, func(e *env, h *hooked) {
		var x inspect.Explanation
		var s inspect.Snapshot
		var page inspect.ObjectPage
		var later context.Context
		h.update = func(ctx context.Context, _ *object) error {
			later = ctx
			began := time.Now()
			x, s = e.loop.Explain(ctx, "1"), e.loop.Snapshot(ctx)
			page, _ = e.loop.Objects(ctx, inspect.ObjectQuery{})
			assert.Zero(e, time.Since(began), "waited")
			return nil
		}
		e.put(1, 1)
		synctest.Wait()
		require.Equal(e, "Pending", x.Status)
		require.Len(e, page.Objects, 1)
		inLine := e.loop.Settings().Concurrency == 1
		if inLine {
			require.Equal(e, inspect.ConditionBusy, s.Condition)
			require.NotEmpty(e, s.Busy)
		} else {
			require.Equal(e, inspect.ConditionRunning, s.Condition)
			require.Equal(e, inspect.StateInFlight, x.State)
		}
		// The loop answers normally for the context of an operation that has ended.
		require.Equal(e, inspect.ConditionRunning, e.loop.Snapshot(later).Condition)
	})
}
