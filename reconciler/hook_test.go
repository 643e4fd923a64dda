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
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
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

// A batch is one call, and so is a round of deletions or updates.
func TestHookWrapsEachBatch(t *testing.T) {
	for _, kind := range operationKinds[1:] {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, n), func(t *testing.T) {
				s := &spans{}
				inBubble(t, func(e *env) {
					e.put(1, 1, 2, 3)
					e.pass(time.Second)
					require.Equal(e, []string{"objects update 1 x3, attempt 1: <nil>"}, s.take())
					e.remove(2, 3)
					e.pass(time.Second)
					require.Equal(e, []string{"objects delete 2 x2, attempt 1: <nil>"}, s.take())
				}, kind.change, reconciler.WithOperationHook(s.hook))
			})
		}
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

// A span that was begun for a batch ends, with the panic as its error.
func TestHookGetsThePanicOfABatch(t *testing.T) {
	for _, kind := range operationKinds[1:] {
		s := &spans{}
		inBubble(t, func(e *env) {
			e.target.before = func(context.Context, call) { panic("oops") }
			e.put(1, 7)
			e.pass(0)
			require.Equal(e, []string{"objects update 7 x1, attempt 1: panic in batch: oops"}, s.take())
		}, kind.change, reconciler.WithOperationHook(s.hook))
	}
}
