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

// combined is an error with its expected meaning.
type combined struct {
	err  error
	kind reconciler.StatusKind
	text string
	// again lists when the operation runs in the first ten seconds if it always returns the error.
	again []time.Duration
}

var (
	once    = seconds(0)
	backoff = seconds(0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3)
)

// IsBlocked agrees with the loop.
func TestIsBlockedAgreesWithTheStatus(t *testing.T) {
	for _, outcomes := range []map[string]combined{wrapped(), joined()} {
		for name, outcome := range outcomes {
			require.Equal(t, outcome.kind == reconciler.StatusKindBlocked, reconciler.IsBlocked(outcome.err), name)
		}
	}
	require.False(t, reconciler.IsBlocked(nil))
}

func wrapped() map[string]combined {
	later := reconciler.RetryAfter(errInner, 4*time.Second)
	final := reconciler.TerminalError(errInner)
	waits := reconciler.Blocked("door", make(chan struct{}))
	again := reconciler.Requeue(4 * time.Second)
	const failed, blocked, done = reconciler.StatusKindError, reconciler.StatusKindBlocked, reconciler.StatusKindDone
	every4 := seconds(0, 4, 8)
	return map[string]combined{
		"plain":            {errPlain, failed, "plain", backoff},
		"retry after":      {later, failed, "inner", every4},
		"terminal":         {final, failed, "inner", once},
		"blocked":          {waits, blocked, "door", once},
		"requeue":          {again, done, "", every4},
		"requeue, backoff": {reconciler.RequeueBackoff(), done, "", backoff},
		"retry after, %w":  {fmt.Errorf("outer: %w", later), failed, "outer: inner", every4},
		"terminal, %w":     {fmt.Errorf("outer: %w", final), failed, "outer: inner", once},
		"blocked, %w":      {fmt.Errorf("outer: %w", waits), blocked, "outer: door", once},
		"requeue, %w":      {fmt.Errorf("outer: %w", again), done, "", every4},

		"retry after, joined alone": {errors.Join(nil, later), failed, "inner", every4},
		"terminal, joined alone":    {errors.Join(final, nil), failed, "inner", once},
		"blocked, joined alone":     {errors.Join(waits), blocked, "door", once},
		"requeue, joined alone":     {errors.Join(nil, again), done, "", every4},

		"retry after, deep": {
			fmt.Errorf("a: %w", errors.Join(errPlain, fmt.Errorf("b: %w", later))), failed, "a: plain\nb: inner", every4,
		},
		"terminal, with a sentinel":   {fmt.Errorf("%w: %w", errPlain, final), failed, "plain: inner", once},
		"requeue, deep":               {errors.Join(nil, fmt.Errorf("a: %w", errors.Join(again))), done, "", every4},
		"blocked, with no channel":    {reconciler.Blocked("door"), blocked, "door", once},
		"blocked, with nil":           {reconciler.Blocked("door", nil), blocked, "door", once},
		"retry after zero":            {reconciler.RetryAfter(errInner, 0), failed, "inner", backoff},
		"retry after a negative time": {reconciler.RetryAfter(errInner, -time.Second), failed, "inner", backoff},
	}
}

func joined() map[string]combined {
	later := reconciler.RetryAfter(errInner, 4*time.Second)
	latest := reconciler.RetryAfter(errInner, 8*time.Second)
	byBackoff := reconciler.RetryAfter(errInner, 0)
	final := reconciler.TerminalError(errInner)
	waits := reconciler.Blocked("door", make(chan struct{}))
	again := reconciler.Requeue(8 * time.Second)
	soon := reconciler.Requeue(4 * time.Second)
	const failed, blocked, done = reconciler.StatusKindError, reconciler.StatusKindBlocked, reconciler.StatusKindDone
	every4, every8 := seconds(0, 4, 8), seconds(0, 8)
	cases := map[string]combined{}
	for name, c := range map[string]struct {
		one, two error
		kind     reconciler.StatusKind
		again    []time.Duration
	}{
		"plain and requeue":                             {errPlain, again, failed, backoff},
		"plain and retry after":                         {errPlain, later, failed, every4},
		"plain and terminal":                            {errPlain, final, failed, once},
		"plain and blocked":                             {errPlain, waits, blocked, once},
		"the later of two retry times":                  {later, latest, failed, every8},
		"retry after with and without a time":           {byBackoff, later, failed, every4},
		"retry after without a time and terminal":       {byBackoff, final, failed, backoff},
		"retry after and terminal":                      {later, final, failed, every4},
		"retry after and blocked":                       {later, waits, failed, every4},
		"retry after and requeue":                       {later, again, failed, every4},
		"blocked and terminal":                          {waits, final, blocked, once},
		"blocked and requeue":                           {waits, again, blocked, once},
		"terminal and requeue":                          {final, again, failed, once},
		"the shorter of two requeues":                   {again, soon, done, every4},
		"requeue and requeue with backoff":              {again, reconciler.RequeueBackoff(), done, every8},
		"requeue with backoff twice":                    {reconciler.RequeueBackoff(), reconciler.RequeueBackoff(), done, backoff},
		"plain and requeue with backoff":                {errPlain, reconciler.RequeueBackoff(), failed, backoff},
		"terminal that wraps retry after, and terminal": {reconciler.TerminalError(later), final, failed, once},
		"retry after that wraps terminal, and terminal": {reconciler.RetryAfter(final, 4*time.Second), final, failed, every4},
		"retry after that wraps requeue, and requeue":   {reconciler.RetryAfter(again, 4*time.Second), soon, failed, every4},
		"terminal that wraps several, and requeue":      {reconciler.TerminalError(errors.Join(later, waits)), again, failed, once},
		"blocked without a channel and with one":        {reconciler.Blocked("gate"), waits, blocked, once},
	} {
		for order, err := range map[string]error{"": errors.Join(c.one, c.two), ", reversed": errors.Join(c.two, c.one)} {
			text := err.Error()
			if c.kind == done {
				text = ""
			}
			cases[name+order] = combined{err, c.kind, text, c.again}
		}
	}
	return cases
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
