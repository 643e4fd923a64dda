// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
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
	for n, attempts := range map[int][]time.Duration{
		1: seconds(0, 0.1), 2: seconds(0, 0.1, 0.3), 5: seconds(0, 0.1, 0.3, 0.7, 1.5, 3.1),
	} {
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
			journal := e.loop.Journal()
			require.Equal(e, inspect.ResultTerminal, journal[len(journal)-1].Operations[0].Result)

			e.target.failing("")
			e.pass(24 * time.Hour)
			require.Empty(e, e.target.take())
			e.put(2, 1)
			e.pass(time.Second)
			e.eachDone()
			level, _, _ = e.health.Now()
			require.Equal(e, cell.StatusOK, level)
		}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = n }))
	}
}

func TestZeroMaxRetriesMeansNoLimit(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		e.pass(24 * time.Hour)
		require.Greater(e, len(e.target.take()), 1000)
		e.status(1, reconciler.StatusKindError, "no")
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 0 }))
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
				e.target.failing("no")
				e.put(1, 1)
				e.pass(time.Hour)
				require.Len(e, e.target.take(), 3)
				start := time.Now()
				ask(e)
				e.pass(time.Hour)
				require.Equal(e, seconds(0, 0.8, 2.4), since(start, e.target.take()))
				e.status(1, reconciler.StatusKindError, "given up after 2 retries: no")

				// A success also resets its backoff.
				e.target.failing("")
				ask(e)
				e.pass(time.Hour)
				e.eachDone()
				e.target.take()
				e.target.failing("no")
				start = time.Now()
				ask(e)
				e.pass(time.Hour)
				require.Equal(e, seconds(0, 0.1, 0.3), since(start, e.target.take()))
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 2 }))
		})
	}
}

// Repeated writes of a given-up object cause no hot loop.
func TestGivenUpObjectKeepsToItsMinimumBackoff(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.failing("no")
		for value := range 200 {
			e.put(value, 1)
			e.pass(20 * time.Millisecond)
		}
		calls := len(e.target.take())
		require.GreaterOrEqual(e, calls, 4)
		require.LessOrEqual(e, calls, 5, "in 4 s with a minimum backoff of 1 s")
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 1 }), reconciler.WithRetry(time.Second, time.Minute))
}

func TestDeletionsAreNeverGivenUp(t *testing.T) {
	everyWay(t, func(e *env) {
		e.put(1, 1, 2)
		e.pass(time.Second)
		e.target.failing("no")
		e.put(2, 2)
		e.pass(time.Hour)
		e.status(2, reconciler.StatusKindError, "given up after 1 retries: no")
		e.target.take()
		e.remove(1, 2)
		e.pass(time.Hour)
		require.Greater(e, len(e.target.take()), 2*60)
		e.target.failing("")
		e.pass(time.Minute)
		e.eachDone()
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 1 }))
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

// A success resets the count of failures, even if the operation requests another run.
func TestSuccessEndsTheCountOfRetries(t *testing.T) {
	everyWay(t, func(e *env) {
		var n atomic.Int64
		e.target.deciding(func(call) error {
			if n.Add(1)%3 == 0 {
				return reconciler.Requeue(time.Second)
			}
			return errPlain
		})
		e.put(1, 1)
		e.pass(time.Minute)
		require.Greater(e, n.Load(), int64(100))
		require.NotContains(e, e.get(1).Status.GetError(), "given up")
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 2 }))
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

func TestMaxRetriesCanBeChanged(t *testing.T) {
	everyWay(t, func(e *env) {
		set := func(n int) {
			require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.MaxRetries = n }))
		}
		e.target.failing("no")
		e.put(1, 1)
		e.pass(time.Second)
		require.Len(e, e.target.take(), 4)
		set(2)
		e.pass(time.Hour)
		require.Len(e, e.target.take(), 1)
		e.status(1, reconciler.StatusKindError, "given up after 4 retries: no")
		set(0)
		e.pass(time.Hour)
		require.Empty(e, e.target.take(), "a given-up object stays given up")
		e.setStatus(1, reconciler.StatusPending())
		e.pass(time.Hour)
		require.Greater(e, len(e.target.take()), 50)
		require.ErrorContains(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.MaxRetries = -1 }),
			"Settings.MaxRetries is -1, must not be negative")
	})
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
