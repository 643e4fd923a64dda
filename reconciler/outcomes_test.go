// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

var (
	errPlain = errors.New("plain")
	errInner = errors.New("inner")
)

var (
	once    = seconds(0)
	backoff = seconds(0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3)
)

// IsBlocked agrees with the loop: of several errors a RetryAfter comes before a block, and a block before the others.
func TestIsBlockedAgreesWithTheStatus(t *testing.T) {
	for name, c := range map[string]struct {
		other   error
		blocked bool
	}{
		"alone": {nil, true}, "plain": {errPlain, true}, "retry after": {reconciler.RetryAfter(errInner, time.Second), false},
		"terminal": {reconciler.TerminalError(errInner), true}, "requeue": {reconciler.Requeue(time.Second), true},
	} {
		singly(t, func(e *env) {
			err := errors.Join(c.other, fmt.Errorf("outer: %w", reconciler.Blocked("door", make(chan struct{}))))
			require.Equal(t, c.blocked, reconciler.IsBlocked(err), name)
			e.target.deciding(func(call) error { return err })
			e.put(1, 1)
			synctest.Wait()
			require.Equal(t, c.blocked, e.kind(1) == reconciler.StatusKindBlocked, name)
		})
	}
	require.False(t, reconciler.IsBlocked(nil))
}

// Each of several joined channels wakes the object.
func TestJoinedBlocksAreReleasedByAnyOfTheirChannels(t *testing.T) {
	for _, which := range []int{0, 1, 2} {
		everyWay(t, func(e *env) {
			doors := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
			err := errors.Join(reconciler.Blocked("one", doors[0], nil), fmt.Errorf("and %w", reconciler.Blocked("two", doors[1], doors[2])))
			e.target.deciding(func(call) error { return err })
			e.put(1, 1)
			e.pass(time.Hour)
			require.Len(e, e.target.take(), 1)
			e.status(1, reconciler.StatusKindBlocked, "one\nand two")
			e.target.failing("")
			close(doors[which])
			synctest.Wait()
			require.Len(e, e.target.take(), 1)
			e.eachDone()
		}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
	}
}

// A deletion has no row for its status, but waits like an update. Its outcome is never terminal,
// since no row is left that could change.
func TestDeletionsWaitLikeUpdatesAndAreNeverTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		again []time.Duration
	}{
		"retry after": {reconciler.RetryAfter(errInner, 4*time.Second), seconds(0, 4, 8)},
		"plain":       {errPlain, backoff},
		"terminal":    {reconciler.TerminalError(errInner), backoff},
		"blocked":     {reconciler.Blocked("door"), once},
		"requeue":     {reconciler.Requeue(4 * time.Second), seconds(0, 4, 8)},
		"backoff":     {reconciler.RequeueBackoff(), backoff},
		"joined":      {errors.Join(errPlain, reconciler.Requeue(time.Second)), backoff},
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(e *env) {
				e.put(1, 1)
				e.pass(time.Second)
				e.target.take()
				e.target.deciding(func(call) error { return c.err })
				start := time.Now()
				e.remove(1)
				e.pass(10 * time.Second)
				require.Equal(e, c.again, since(start, e.target.take()))

				e.target.failing("")
				e.put(2, 1)
				e.pass(10 * time.Second)
				e.eachDone()
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
		})
	}
}

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
