// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// setStatus writes the row with a new status and no other change.
func (e *env) setStatus(id uint64, s reconciler.Status) {
	e.write(func(wtxn statedb.WriteTxn) {
		_, _, err := e.table.Insert(wtxn, e.get(id).Clone().SetStatus(s))
		require.NoError(e, err)
	})
}

func TestObjectIsGivenUpAfterItsRetries(t *testing.T) {
	for n, attempts := range map[int][]time.Duration{1: seconds(0, 0.1), 5: seconds(0, 0.1, 0.3, 0.7, 1.5, 3.1)} {
		everyWay(t, func(e *env) {
			e.target.failing("no")
			start := time.Now()
			e.put(1, 1)
			e.pass(24 * time.Hour)
			require.Equal(e, attempts, since(start, e.target.take()))
			text := fmt.Sprintf("given up after %d retries: no", n)
			e.status(1, reconciler.StatusKindError, text)
			level, message, err := e.health.Now()
			require.Equal(e, cell.StatusDegraded, level)
			require.Equal(e, "1 error(s)", message)
			require.EqualError(e, err, text)
			journal := e.loop.Rounds()
			require.Equal(e, inspect.ResultTerminal, journal[len(journal)-1].Operations[0].Result)
		}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = n }))
	}
}

// A change of a given-up object, or of its status alone, allows the same number of retries again.
// Its backoff continues.
func TestGivenUpObjectIsRetriedAgainOnRequest(t *testing.T) {
	for name, ask := range map[string]func(e *env){
		"changed":    func(e *env) { e.put(2, 1) },
		"pending":    func(e *env) { e.setStatus(1, reconciler.StatusPending()) },
		"refreshing": func(e *env) { e.setStatus(1, reconciler.StatusRefreshing()) },
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(e *env) {
				asked := func() []time.Duration {
					e.target.take()
					start := time.Now()
					ask(e)
					e.pass(time.Hour)
					return since(start, e.target.take())
				}
				e.target.failing("no")
				e.put(1, 1)
				e.pass(time.Hour)
				require.Equal(e, seconds(0, 0.8, 2.4), asked())
				e.status(1, reconciler.StatusKindError, "given up after 2 retries: no")
				e.target.failing("")
				asked()
				e.eachDone()
				e.target.failing("no")
				require.Equal(e, seconds(0, 0.1, 0.3), asked(), "a success also resets its backoff")
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 2 }))
		})
	}
}

// Every failure counts, whatever its kind; outcomes that are no failure do not count.
func TestEveryFailureCountsAsARetry(t *testing.T) {
	everyWay(t, func(e *env) {
		var n atomic.Int64
		e.target.deciding(func(call) error {
			switch n.Add(1) {
			case 1:
				return errPlain
			case 2:
				return reconciler.RetryAfter(errPlain, time.Second)
			case 3:
				return reconciler.Blocked("door")
			case 4:
				panic("out of cheese")
			case 5:
				return errors.Join(errPlain, reconciler.Requeue(time.Second))
			}
			return fmt.Errorf("failure %d", n.Load()-1)
		})
		e.put(1, 1)
		e.pass(24 * time.Hour)
		require.EqualValues(e, 6, n.Load())
		e.status(1, reconciler.StatusKindError, "given up after 4 retries: failure 5")
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 4 }))
}

// A write of another writer is no change of the desired state.
func TestWritesOfOthersDoNotResetTheRetryCount(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		for range 100 {
			e.pass(33 * time.Millisecond)
			e.write(func(wtxn statedb.WriteTxn) {
				_, _, err := e.table.Insert(wtxn, e.get(1).Clone().SetOther(reconciler.StatusDone()))
				require.NoError(e, err)
			})
		}
		e.pass(time.Hour)
		require.Len(e, e.target.take(), 3)
		e.status(1, reconciler.StatusKindError, "given up after 2 retries: no")
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 2 }))
}

// An object that changes during its last attempt is not given up.
func TestChangeDuringTheLastAttemptCounts(t *testing.T) {
	everyWay(t, func(e *env) {
		var n atomic.Int64
		e.target.before = func(context.Context, call) {
			if n.Add(1) == 2 {
				e.put(2, 1)
			}
		}
		e.target.failing("no")
		start := time.Now()
		e.put(1, 1)
		e.pass(time.Hour)
		require.Equal(e, seconds(0, 0.1, 0.2, 0.6), since(start, e.target.take()))
		e.status(1, reconciler.StatusKindError, "given up after 1 retries: no")
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 1 }))
}

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

func TestWithoutTimeoutThereIsNoDeadline(t *testing.T) {
	singly(t, func(e *env) {
		e.hook(func(ctx context.Context, c call) {
			if _, ok := ctx.Deadline(); ok != (c.op == "delete") {
				e.Errorf("%s has a deadline: %t", c, ok)
			}
		})
		e.put(1, 1)
		synctest.Wait()
		require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.Timeout = time.Second }))
		e.remove(1)
		e.loop.Prune()
		e.pass(time.Minute)
		require.Len(e, e.target.take(), 3)
	})
}

// blocking makes every operation return Blocked with a channel that never closes.
func (e *env) blocking(reason string) {
	never := make(chan struct{})
	e.target.deciding(func(call) error { return reconciler.Blocked(reason, never) })
}

// Objects that were blocked together are rechecked at different times, unless they were in one
// call.
func TestRechecksAreSpread(t *testing.T) {
	singly(t, func(e *env) {
		e.blocking("door")
		start := time.Now()
		e.put(1, ids(1, 200)...)
		e.pass(time.Second)
		require.Len(e, e.target.take(), 200)
		e.pass(time.Minute)
		calls := e.target.take()
		require.Len(e, calls, 200)
		moments := map[time.Time]int{}
		for _, c := range calls {
			after := c.at.Sub(start)
			require.GreaterOrEqual(e, after, 54*time.Second)
			require.LessOrEqual(e, after, 60*time.Second+500*time.Millisecond)
			moments[c.at]++
		}
		require.Greater(e, len(moments), 50)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0.1 }))
}

// comesBack identifies objects that were in one call and had been called the same number of times.
type comesBack struct{ batch, times int }

// requireTogether requires that the objects of each comesBack are called again at one moment. It
// returns these moments.
func requireTogether(t *testing.T, calls []call) map[comesBack]time.Time {
	t.Helper()
	back := map[comesBack]time.Time{}
	last, times := map[uint64]comesBack{}, map[uint64]int{}
	for _, c := range calls {
		if from, ok := last[c.id]; ok {
			if at, known := back[from]; known {
				require.Equal(t, at, c.at, "object %d and others of call %d", c.id, from.batch)
			}
			back[from] = c.at
		}
		times[c.id]++
		last[c.id] = comesBack{c.batch, times[c.id]}
	}
	return back
}

// waiting returns the outcomes after which an object comes back after a wait with jitter.
func waiting() map[string]error {
	return map[string]error{
		"failed": errPlain, "requeued": reconciler.RequeueBackoff(),
		"blocked": reconciler.Blocked("door", make(chan struct{})),
	}
}

// Objects that failed in one call come back in one call: jitter does not add calls. The same holds
// for objects that back off without a failure, and for blocked objects.
func TestObjectsOfOneCallComeBackInOneCall(t *testing.T) {
	for name := range waiting() {
		for _, kind := range []string{"batches", "rounds"} {
			numCalls := map[float64]int{}
			for _, jitter := range []float64{0, 0.1} {
				eachConcurrency(t, fmt.Sprintf("%s, %s, jitter %g", name, kind, jitter), func(e *env) {
					out := waiting()[name]
					e.target.deciding(func(call) error { return out })
					e.put(1, ids(1, 200)...)
					e.pass(time.Minute)
					calls := e.target.take()
					require.GreaterOrEqual(e, len(calls), 200)
					requireTogether(e.T, calls)
					numCalls[jitter] = e.target.batches
				}, operate(kind), reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = jitter }))
			}
			require.LessOrEqual(t, numCalls[0.1], numCalls[0]*3/2)
		}
	}
}
