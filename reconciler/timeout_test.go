// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// overdue makes every operation run until its context ends. f turns the error of the context into
// the result.
func (x *target) overdue(f func(err error) error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ended := map[uint64]error{}
	var mu sync.Mutex
	x.before = func(ctx context.Context, c call) {
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		ended[c.id] = ctx.Err()
	}
	x.plan = func(c call) error {
		mu.Lock()
		defer mu.Unlock()
		return f(ended[c.id])
	}
}

// prompt makes every operation succeed at once.
func (x *target) prompt() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.before, x.plan = nil, nil
}

// asIs returns the error unchanged.
func asIs(err error) error { return err }

func TestTimeoutErrorNamesTheOperationAndTheTimeout(t *testing.T) {
	for _, kind := range []string{"single", "batches", "rounds"} {
		names := map[string]string{"update": "update", "delete": "delete"}
		if kind != "single" {
			names = map[string]string{"update": "batch", "delete": "batch"}
		}
		eachConcurrency(t, kind, func(e *env) {
			e.target.overdue(asIs)
			e.put(1, 1)
			e.pass(5*time.Second + time.Millisecond)
			e.status(1, reconciler.StatusKindError, names["update"]+" timed out after 5s: context deadline exceeded")

			// The next attempt has the full timeout again.
			start := time.Now()
			e.pass(99*time.Millisecond + 5*time.Second)
			calls := e.target.take()
			require.Len(e, calls, 2)
			require.Equal(e, 99*time.Millisecond, calls[1].at.Sub(start).Round(time.Millisecond))

			e.target.prompt()
			e.pass(time.Minute)
			e.eachDone()
			e.target.overdue(asIs)
			e.remove(1)
			e.pass(5*time.Second + time.Millisecond)
			_, _, err := e.health.Now()
			require.EqualError(e, err, names["delete"]+" timed out after 5s: context deadline exceeded")
			e.target.prompt()
			e.pass(time.Minute)
			e.eachDone()
		}, operate(kind), reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = 5 * time.Second }))
	}
}

// A timeout can be recognised by its error, whatever error the operation returned.
func TestTimeoutErrorIsDeadlineExceeded(t *testing.T) {
	for name, returned := range map[string]func(error) error{
		"as it is": asIs,
		"wrapped":  func(err error) error { return fmt.Errorf("dialling: %w", err) },
		"replaced": func(error) error { return errPlain },
	} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan error, 100)
			everyWayWith(t, classed(func(err error) string { seen <- err; return "" }, nil), func(e *env) {
				for len(seen) > 0 {
					<-seen
				}
				e.target.overdue(returned)
				e.put(1, 1)
				e.pass(time.Second + time.Millisecond)
				require.Len(e, seen, 1)
				err := <-seen
				require.ErrorIs(e, err, context.DeadlineExceeded)
				require.ErrorContains(e, err, "timed out after 1s: "+returned(context.DeadlineExceeded).Error())
				if name == "replaced" {
					require.ErrorIs(e, err, errPlain)
				}
				e.target.prompt()
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }))
		})
	}
}

// The outcome of an operation counts, however late the operation returns.
func TestOutcomesOfLateOperationsCount(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind reconciler.StatusKind
		text string
	}{
		"done":     {nil, reconciler.StatusKindDone, ""},
		"terminal": {reconciler.TerminalError(errInner), reconciler.StatusKindError, "inner"},
		"blocked":  {reconciler.Blocked("door"), reconciler.StatusKindBlocked, "door"},
		"requeue":  {reconciler.Requeue(time.Hour), reconciler.StatusKindDone, ""},
		"after":    {reconciler.RetryAfter(errInner, time.Hour), reconciler.StatusKindError, "inner"},
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(e *env) {
				e.target.overdue(func(error) error { return c.err })
				e.put(1, 1)
				e.pass(20 * time.Second)
				require.Len(e, e.target.take(), 1)
				e.status(1, c.kind, c.text)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }))
		})
	}
}

// An operation that fails before its deadline is no timeout, even if it exceeded a deadline of its
// own.
func TestFailuresInTimeAreNoTimeouts(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.deciding(func(call) error { return context.DeadlineExceeded })
		e.put(1, 1)
		synctest.Wait()
		e.status(1, reconciler.StatusKindError, "context deadline exceeded")
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }))
}

// Each single operation, and each batch call, has the full timeout.
func TestEachCallHasItsOwnDeadline(t *testing.T) {
	for _, kind := range []string{"single", "batches", "rounds"} {
		eachConcurrency(t, kind, func(e *env) {
			e.target.before = func(ctx context.Context, c call) {
				deadline, ok := ctx.Deadline()
				left := time.Until(deadline)
				if kind == "single" && left != 10*time.Second || !ok || left > 10*time.Second {
					e.Errorf("%s has %s", c, left)
				}
				time.Sleep(3 * time.Second)
			}
			e.put(1, ids(1, 3)...)
			e.pass(time.Minute)
			e.eachDone()
		}, operate(kind), reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = 10 * time.Second }))
	}
}

func TestWithoutTimeoutThereIsNoDeadline(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		inBubble(t, func(e *env) {
			e.target.before = func(ctx context.Context, c call) {
				if _, ok := ctx.Deadline(); ok && (timeout == 0 || c.op == "prune") {
					e.Errorf("%s has a deadline", c)
				}
			}
			e.put(1, 1)
			synctest.Wait()
			e.remove(1)
			e.loop.Prune()
			e.pass(time.Minute)
			require.Len(e, e.target.take(), 3)
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = timeout }))
	}
}

func TestTimeoutCanBeChanged(t *testing.T) {
	everyWay(t, func(e *env) {
		require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.Timeout = time.Second }))
		e.target.overdue(asIs)
		e.put(1, 1)
		e.pass(1001 * time.Millisecond)
		require.Contains(e, e.get(1).Status.GetError(), "timed out after 1s")
		require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.Timeout = 3 * time.Second }))
		e.pass(time.Minute)
		require.Contains(e, e.get(1).Status.GetError(), "timed out after 3s")
		e.target.prompt()
		e.pass(time.Minute)
		e.eachDone()
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Hour }))
}

// The deadline of the program's context is no timeout of the operation.
func TestEndOfTheReconcilerIsNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		loop, err := reconciler.New(e.config(reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Hour }), reconciler.WithoutPruning()))
		require.NoError(e, err)
		e.target.overdue(asIs)
		e.put(1, 1)
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		require.NoError(e, loop.Run(ctx))
		e.status(1, reconciler.StatusKindError, "context deadline exceeded")
	})
}

func TestNegativeTimeoutIsAnError(t *testing.T) {
	e := newEnv(t)
	_, err := reconciler.New(e.config(reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = -time.Second })))
	require.ErrorContains(t, err, "Settings.Timeout is -1s, must not be negative")
	require.False(t, errors.Is(err, context.DeadlineExceeded))
}
