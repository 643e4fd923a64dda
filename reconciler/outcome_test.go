// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// returning runs a test in which every operation returns an error until the test changes that, with
// single operations, batches and rounds.
func returning(t *testing.T, err error, test func(e *env)) {
	for _, kind := range []string{"single", "batches", "rounds"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.deciding(func(call) error { return err })
				test(e)
			}, func(e *env, cfg *reconciler.Config[*object]) {
				switch kind {
				case "batches":
					cfg.BatchOperations = batchTarget{e.target}
				case "rounds":
					cfg.RoundOperations = roundTarget{e.target}
				}
			}, reconciler.WithoutPruning())
		})
	}
}

func TestRetryAfterReplacesTheBackoff(t *testing.T) {
	returning(t, fmt.Errorf("asked too often: %w", reconciler.RetryAfter(errors.New("429"), 7*time.Second)), func(e *env) {
		e.put(1, 1)
		start := time.Now()
		e.pass(15 * time.Second)
		calls := e.target.take()
		require.Len(e, calls, 3)
		require.Equal(e, 7*time.Second, calls[1].at.Sub(start))
		require.Equal(e, 14*time.Second, calls[2].at.Sub(start))
		require.Equal(e, "asked too often: 429", e.get(1).Status.GetError())
	})
}

func TestTerminalErrorIsNotRetriedUntilTheObjectChanges(t *testing.T) {
	returning(t, errors.Join(reconciler.TerminalError(errors.New("no such device"))), func(e *env) {
		revision := e.put(1, 1)
		e.pass(24 * time.Hour)
		require.Len(e, e.target.take(), 1)
		require.Equal(e, reconciler.StatusKindError, e.kind(1))
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, "1 error(s)", message)
		require.EqualError(e, err, "no such device")
		_, low, err := e.loop.WaitUntilReconciled(e.Context(), revision)
		require.NoError(e, err)
		require.Equal(e, revision, low)

		e.target.failing("")
		e.put(2, 1)
		e.pass(time.Second)
		e.eachDone()
		level, _, _ = e.health.Now()
		require.Equal(e, cell.StatusOK, level)
	})
}

func TestRequeueIsDoneAndRunsAgain(t *testing.T) {
	returning(t, reconciler.Requeue(time.Minute), func(e *env) {
		e.put(1, 1)
		synctest.Wait()
		e.eachDone()
		revision := e.table.Revision(e.db.ReadTxn())
		e.pass(3*time.Minute + time.Second)
		require.Equal(e, []string{"update(1)", "update(1)", "update(1)", "update(1)"}, e.target.calls())
		require.Equal(e, revision, e.table.Revision(e.db.ReadTxn()), "Done stays Done: nothing is written")
		level, _, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level)

		e.target.failing("")
		e.pass(time.Minute)
		require.Len(e, e.target.take(), 1)
		e.pass(time.Hour)
		require.Empty(e, e.target.take())
		e.remove(1)
		synctest.Wait()
		require.Equal(e, []string{"delete(1)"}, e.target.calls())
	})
}

func TestBlockedWaitsForItsChannelAndForNoClock(t *testing.T) {
	inBubble(t, func(e *env) {
		device := make(chan struct{})
		e.target.deciding(func(c call) error {
			select {
			case <-device:
				return nil
			default:
				return reconciler.Blocked("device eth0", device, make(chan struct{}))
			}
		})
		e.put(1, ids(1, 100)...)
		e.pass(24 * time.Hour)
		require.Len(e, e.target.take(), 100, "no retry by time")
		require.Equal(e, reconciler.StatusKindBlocked, e.kind(1))
		require.Equal(e, "device eth0", e.get(1).Status.GetError())
		level, message, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level)
		require.Equal(e, "OK, 100 object(s), 100 blocked", message)

		e.remove(1)
		synctest.Wait()
		require.Equal(e, []string{"delete(1) fail"}, e.target.calls(), "blocked as well")
		start := time.Now()
		close(device)
		synctest.Wait()
		require.Equal(e, start, time.Now(), "at once")
		require.Len(e, e.target.take(), 100)
		e.eachDone()
		_, message, _ = e.health.Now()
		require.Equal(e, "OK, 99 object(s)", message)
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }), reconciler.WithoutPruning())
}

// The wake-up is not lost when the channel closes while the operation still runs.
func TestBlockedOnAChannelThatIsClosedAlreadyRunsAgain(t *testing.T) {
	returning(t, nil, func(e *env) {
		closed := make(chan struct{})
		close(closed)
		n := 0
		e.target.deciding(func(call) error {
			if n++; n < 5 {
				return reconciler.Blocked("a door", closed)
			}
			return nil
		})
		e.put(1, 1)
		e.pass(time.Second)
		e.eachDone()
		require.Len(e, e.target.take(), 5)
	})
}

// An operation waits for a row of another table with the watch channel of its query.
func TestOperationCanBlockOnARowOfAnotherTable(t *testing.T) {
	inBubble(t, func(e *env) {
		devices, err := statedb.NewTable(e.db, "devices", idIndex)
		require.NoError(e, err)
		e.target.deciding(func(c call) error {
			_, _, watch, found := devices.GetWatch(e.db.ReadTxn(), idIndex.Query(c.id))
			if !found {
				return reconciler.Blocked(fmt.Sprintf("device %d", c.id), watch)
			}
			return nil
		})
		e.put(1, 1, 2)
		e.pass(time.Hour)
		for id := range uint64(2) {
			wtxn := e.db.WriteTxn(devices)
			_, _, err = devices.Insert(wtxn, &object{ID: id + 1})
			require.NoError(e, err)
			wtxn.Commit()
			synctest.Wait()
			require.Equal(e, reconciler.StatusKindDone, e.kind(id+1))
		}
		e.eachDone()
	}, nil)
}

func TestTimeoutEndsAnOperationWithAnError(t *testing.T) {
	for _, kind := range []string{"update", "batch"} {
		inBubble(t, func(e *env) {
			var ended error
			e.target.before = func(ctx context.Context, _ call) { <-ctx.Done(); ended = ctx.Err() }
			e.target.deciding(func(call) error { return ended })
			e.put(1, 1)
			e.pass(5*time.Second + time.Millisecond)
			require.Equal(e, kind+" timed out after 5s: context deadline exceeded", e.get(1).Status.GetError())
			e.target.before = nil
			e.target.failing("")
			e.pass(time.Minute)
			e.eachDone()
		}, func(e *env, cfg *reconciler.Config[*object]) {
			if kind == "batch" {
				cfg.BatchOperations = batchTarget{e.target}
			}
		}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = 5 * time.Second }), reconciler.WithoutPruning())
	}
}

func TestRetryAfterAndTerminalErrorOfNilAreNil(t *testing.T) {
	require.NoError(t, reconciler.RetryAfter(nil, time.Second))
	require.NoError(t, reconciler.TerminalError(nil))
}

func TestMutationsByUpdateAreKept(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.mutate = func(o *object) { o.Note = fmt.Sprintf("allocated %d", o.ID) }
		e.put(1, 1)
		synctest.Wait()
		require.Equal(e, "allocated 1", e.get(1).Note)
	}, nil)
}

// An operation that requests to run again with backoff is done: Done is written once, health is OK,
// and it does not count as a failure. A change runs at once and keeps the current backoff; another
// outcome resets it.
func TestRequeueWithBackoffIsNoFailure(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(call) error { return reconciler.RequeueBackoff() })
		e.put(1, 1)
		synctest.Wait()
		e.eachDone()
		revision := e.table.Revision(e.db.ReadTxn())
		start := time.Now()
		e.pass(time.Second)
		require.Equal(e, seconds(0, 0.1, 0.3, 0.7), since(start, e.target.take()))
		require.Equal(e, revision, e.table.Revision(e.db.ReadTxn()), "Done stays Done: nothing is written")
		level, message, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level, message)
		require.Zero(e, e.loop.Figures().Failing)

		e.put(2, 1)
		e.pass(2 * time.Second)
		require.Equal(e, seconds(1, 2.6), since(start, e.target.take()), "the fifth wait is 1.6 s")

		e.target.deciding(func(call) error { return reconciler.Requeue(time.Second) })
		e.pass(4 * time.Second)
		require.Equal(e, seconds(5.8, 6.8), since(start, e.target.take()))
		e.target.deciding(func(call) error { return reconciler.RequeueBackoff() })
		e.pass(time.Second)
		require.Equal(e, seconds(7.8, 7.9), since(start, e.target.take()), "the backoff starts again")

		e.target.deciding(func(call) error { return nil })
		e.pass(time.Hour)
		require.Len(e, e.target.take(), 1)
		e.eachDone()
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 1 }), reconciler.WithoutPruning())
}
