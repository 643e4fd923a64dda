// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// calls are what other goroutines have asked the loop for since it looked last. They
// never wait for the loop, which may be stuck in an operation.
type calls[Obj any] struct {
	// made wakes the loop; some says that there is something to take.
	made signal.Signal
	some atomic.Bool

	mu    sync.Mutex
	asked asked[Obj]
}

// asked is what was asked for.
type asked[Obj any] struct {
	prune, approve bool
	// pause is set if pausing was changed; the last call wins. pauseKeys are the keys that
	// were paused after it, or, if false, resumed.
	pause     *pauseCall[Obj]
	pauseKeys map[string]bool
	// questions are of those who wait for an answer.
	questions map[*question[Obj]]struct{}
}

// question is something that only the goroutine of the loop can tell. answer is called by
// it, between two rounds, and must not block.
type question[Obj any] struct{ answer func(b *answers[Obj]) }

// ask adds to what was asked for.
func (c *calls[Obj]) ask(add func(*asked[Obj])) {
	c.mu.Lock()
	add(&c.asked)
	c.mu.Unlock()
	c.some.Store(true)
	c.made.Send()
}

// take returns what was asked for since the last call of it.
func (c *calls[Obj]) take() asked[Obj] {
	if !c.some.Swap(false) {
		return asked[Obj]{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.asked
	c.asked = asked[Obj]{}
	return taken
}

func (c *calls[Obj]) question(q *question[Obj]) {
	c.ask(func(a *asked[Obj]) {
		if a.questions == nil {
			a.questions = map[*question[Obj]]struct{}{}
		}
		a.questions[q] = struct{}{}
	})
}

// withdraw takes a question back that nobody waits for any more, so that those which a loop
// does not come to do not pile up.
func (c *calls[Obj]) withdraw(q *question[Obj]) {
	c.mu.Lock()
	delete(c.asked.questions, q)
	c.mu.Unlock()
}

// ask returns what the goroutine of the loop answers. The error is that of ctx, if it ends
// before, or [inspect.ErrStopped].
func ask[Obj comparable, T any](ctx context.Context, l *Loop[Obj], answer func(b *answers[Obj]) T) (T, error) {
	answered := make(chan T, 1)
	q := &question[Obj]{answer: func(b *answers[Obj]) { answered <- answer(b) }}
	var none T
	if l.stopped() {
		return none, inspect.ErrStopped
	}
	l.calls.question(q)
	defer l.calls.withdraw(q)
	select {
	case told := <-answered:
		return told, nil
	case <-ctx.Done():
		return none, ctx.Err()
	case <-l.ended:
		return none, inspect.ErrStopped
	}
}

// ErrInOperation is returned, at once, by calls that wait for a reconciler if they are made in
// one of its own operations, a prune among them, whose end they would wait for: Retry, Wait,
// WaitAll, WaitFor, WaitKey and WaitUntilReconciled. It is found by the context, which has to be
// that of the operation, or made of it. A call with any other context is not found out: it waits
// until that ends, for ever if it does not. Waiting for another reconciler is no error.
var ErrInOperation = errors.New("waiting for the reconciler in one of its own operations")

// ownOperation returns the scope of the operation of this loop that a context is of; nil if it
// is of none.
func (l *Loop[Obj]) ownOperation(ctx context.Context) *execute.Scope[Obj] {
	return execute.ScopeOf(ctx, l.rows)
}

// mayWait returns an error that wraps [ErrInOperation] if who waits for the loop with a context
// would wait for itself.
func (l *Loop[Obj]) mayWait(ctx context.Context) error {
	if l.ownOperation(ctx) == nil {
		return nil
	}
	return fmt.Errorf("reconciler %q: %w", called(l.ID()), ErrInOperation)
}

// answerTimeout is for how long a loop may keep somebody waiting whose time is up.
const answerTimeout = 100 * time.Millisecond

// askBriefly is ask for those who cannot wait long. The error is [inspect.ErrNotStarted],
// [inspect.ErrStopped] or an [inspect.BusyError].
func askBriefly[Obj comparable, T any](ctx context.Context, l *Loop[Obj], answer func(b *answers[Obj]) T) (told T, err error) {
	if !l.running.Load() {
		return told, inspect.ErrNotStarted
	}
	if s := l.ownOperation(ctx); s != nil && s == l.scope.Load() && s.IsBusy() {
		// The loop waits for who asks.
		return told, &inspect.BusyError{With: l.view.busy()}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	told, err = ask(ctx, l, answer)
	switch {
	case err == nil:
		return told, nil
	case l.stopped():
		return told, inspect.ErrStopped
	}
	return told, &inspect.BusyError{With: l.view.busy()}
}

// unanswered returns the error of a wait, and with it why the loop could not say what is
// unapplied; nil if it did.
func unanswered(err, why error) error {
	if why == nil || errors.Is(err, why) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, why)
}

// takeCalls takes in what others have asked for, without waiting: a loop that is never idle
// does not come to wait. It reports whether a prune was asked for.
func (r *runner[Obj]) takeCalls() (prune bool) {
	if r.settings.Load() != r.setFrom {
		r.reconfigure(r.now())
	}
	a := r.calls.take()
	if a.prune || a.approve {
		r.pruner.Request(a.approve)
	}
	if a.pause != nil || len(a.pauseKeys) > 0 {
		r.applyPause(a.pause, a.pauseKeys)
	}
	r.takeReleased()
	if len(a.questions) > 0 {
		b := answers[Obj]{core: r.core}
		for q := range a.questions {
			q.answer(&b)
		}
	}
	r.keyWaits.BeginRound(r.observer.Revision())
	return a.prune || a.approve
}
