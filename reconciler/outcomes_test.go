// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
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

// An outcome is found however it is wrapped, and the status has the text of the whole error.
func TestOutcomesAreFoundInWrappedErrors(t *testing.T) { checkOutcomes(t, wrapped) }

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

// The result of joined outcomes does not depend on their order. An outcome that wraps others
// replaces them.
func TestJoinedOutcomesDoNotDependOnTheirOrder(t *testing.T) { checkOutcomes(t, joined) }

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

// checkOutcomes checks cases. It makes them for each bubble, since they contain channels.
func checkOutcomes(t *testing.T, cases func() map[string]combined) {
	for name := range cases() {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(e *env) {
				c := cases()[name]
				e.target.deciding(func(call) error { return c.err })
				start := time.Now()
				e.put(1, 1)
				e.pass(10 * time.Second)
				require.Equal(e, c.again, since(start, e.target.take()))
				e.status(1, c.kind, c.text)

				// A change is applied after every outcome.
				e.target.failing("")
				e.put(2, 1)
				e.pass(10 * time.Second)
				e.eachDone()
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
		})
	}
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

// An error whose methods panic, such as a nil pointer in an error, is handled like other errors.
func TestErrorsWhoseMethodsPanicAreErrors(t *testing.T) {
	for name, err := range map[string]error{
		"error":         (*nilError)(nil),
		"unwrap":        (*net.OpError)(nil),
		"wrapped":       fmt.Errorf("outer: %w", error((*net.OpError)(nil))),
		"joined":        errors.Join(errPlain, (*net.OpError)(nil)),
		"unwrap, error": (*panickyError)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			for _, batch := range []bool{false, true} {
				x := &erring{err: err}
				eachConcurrency(t, fmt.Sprintf("batch %t", batch), func(e *env) {
					before := x.attempts.Load()
					e.put(1, 1)
					e.pass(time.Second)
					require.Equal(e, reconciler.StatusKindError, e.kind(1))
					require.NotEmpty(e, e.get(1).Status.GetError())
					require.EqualValues(e, 4, x.attempts.Load()-before)
				}, func(e *env, cfg *reconciler.Config[*object]) {
					cfg.Operations = x
					if batch {
						cfg.BatchOperations = x
					}
				}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Minute }))
			}
		})
	}
}

// panickyError is an error whose methods panic without an inner error.
type panickyError struct{ inner error }

func (p *panickyError) Error() string { return p.inner.Error() }
func (p *panickyError) Unwrap() error { return p.inner }

// erring is a target whose operations all return one error.
type erring struct {
	*target
	err      error
	attempts atomic.Int64
}

func (x *erring) Update(context.Context, statedb.ReadTxn, statedb.Revision, *object) error {
	x.attempts.Add(1)
	return x.err
}

func (x *erring) UpdateBatch(_ context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	for i := range batch {
		x.attempts.Add(1)
		batch[i].Result = x.err
	}
}

func (x *erring) DeleteBatch(context.Context, statedb.ReadTxn, []reconciler.BatchEntry[*object]) {}

// circular is an error that wraps itself.
type circular struct{}

func (circular) Error() string   { return "circular" }
func (c circular) Unwrap() error { return c }

// levels wraps the error below twice; its text does not grow with the depth.
type levels struct {
	below error
}

func (levels) Error() string { return "levels" }
func (l levels) Unwrap() []error {
	return []error{l.below, l.below}
}

func levelsAbove(bottom error, n int) error {
	for range n {
		bottom = levels{bottom}
	}
	return bottom
}

// An error that wraps itself, or has too many paths for a search, fails like any other error.
func TestSearchOfAnErrorEnds(t *testing.T) {
	for name, err := range map[string]error{
		"wraps itself":           circular{},
		"wraps itself, joined":   errors.Join(errPlain, circular{}),
		"shared by 28 levels":    levelsAbove(errPlain, 28),
		"shared by 1,000 levels": levelsAbove(errPlain, 1000),
		"shared, requeue":        levelsAbove(reconciler.Requeue(time.Hour), 1000),
	} {
		t.Run(name, func(t *testing.T) {
			require.False(t, reconciler.IsBlocked(err))
			returning(t, err, func(e *env) {
				e.put(1, 1)
				e.pass(150 * time.Millisecond)
				require.Len(e, e.target.take(), 2, "with the backoff of any failure")
				require.Equal(e, reconciler.StatusKindError, e.kind(1))
			})
		})
	}
}
