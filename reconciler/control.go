// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func checkKeys(keys []string) error {
	if len(keys) > inspect.MaxKeys {
		return fmt.Errorf("%d keys are too many for one call: at most %d", len(keys), inspect.MaxKeys)
	}
	return nil
}

// notFound returns the error for an unknown key, which may be any text.
func notFound(key string) error {
	return fmt.Errorf("%w: %s", inspect.ErrNotFound, text.Plain(text.Short(key, maxKeyText)))
}

// maxKeyText is the number of bytes of a key that an error has.
const maxKeyText = 256

// Retry makes objects due now that wait for a retry, a requeue, a watch channel or their minimum
// backoff, and retries those that failed for good: the objects with the given keys, or all, if there
// are none. The keys are as for [Loop.Explain]; more than [inspect.MaxKeys] are an error. An open
// breaker still lets only its probes through.
//
// Retry returns how many objects it made due; objects that do not wait are not counted. It waits
// until the loop has applied the call, but not for the operations.
//
// The error joins [inspect.ErrNotFound] for each key that neither the table nor the reconciler has,
// or it is [inspect.ErrNotStarted], [inspect.ErrStopped] or [ErrInOperation]. If ctx ends first, it
// is the error of ctx: while the loop is busy in a long operation that is [context.DeadlineExceeded],
// not an [inspect.BusyError]. So give ctx a deadline. Safe from any goroutine.
func (l *Loop[Obj]) Retry(ctx context.Context, keys ...string) (int, error) {
	type answer struct {
		n    int
		errs []error
	}
	if err := checkKeys(keys); err != nil {
		return 0, err
	}
	if err := l.mayWait(ctx); err != nil {
		return 0, err
	}
	if !l.running.Load() {
		return 0, fmt.Errorf("reconciler %q: %w", l.ID(), inspect.ErrNotStarted)
	}
	told, err := ask(ctx, l.view, func(b *answers[Obj]) (a answer) {
		if len(keys) == 0 {
			a.n = b.r.core.RetryAllNow(l.now())
			return a
		}
		for _, key := range keys {
			s := b.sight(key)
			switch {
			case s.info != nil && b.r.core.RetryNow(string(s.key), l.now()):
				a.n++
			case s.info == nil && !s.found:
				a.errs = append(a.errs, fmt.Errorf("%w: %s", notFound(key), l.view.absent(&s)))
			}
		}
		return a
	})
	if err != nil {
		return 0, fmt.Errorf("reconciler %q: %w", l.ID(), err)
	}
	return told.n, errors.Join(told.errs...)
}

// Refresh has objects that are Done applied again, and no others: use [Loop.Retry] for a failed one,
// also after a [TerminalError], or [Loop.Reapply]. It does not wait for the operations.
//
// With keys, which are as for [Loop.Explain], it returns how many objects it refreshes. It leaves an
// object that is not Done as it is, without an error. The error joins [inspect.ErrNotFound] for each
// key that is not in the table; more than [inspect.MaxKeys] keys are an error.
//
// Without keys it refreshes all rows that are Done and were not written after the call. It returns 0 at
// once; the rows are taken in the background, in the order of their keys and within the limit of
// [WithRefreshing], also if periodic refreshing is off. A second call starts again from the first key.
// After the reconciler has stopped the error is [inspect.ErrStopped].
//
// If the rows carry the status, Refresh sets it to Refreshing, and does not use ctx. A program may
// write that status, too: it can wait for its revision with [Loop.Wait]. Otherwise Refresh with keys
// blocks until the loop has taken the objects, before the loop runs until it does; the error is then
// also that of ctx, [inspect.ErrStopped], or [ErrInOperation] in an operation of this reconciler. If ctx
// ends first, the loop may still take some of the objects; each waits once, however many calls ask for it.
// Safe from any goroutine.
func (l *Loop[Obj]) Refresh(ctx context.Context, keys ...string) (int, error) {
	if len(keys) == 0 && l.stopped() {
		return 0, fmt.Errorf("reconciler %q: %w", l.ID(), inspect.ErrStopped)
	} else if len(keys) == 0 {
		walk := l.refresher.WalkAll()
		l.calls.ask(func(a *asked[Obj]) { a.refresh = walk })
		return 0, nil
	}
	if err := checkKeys(keys); err != nil {
		return 0, err
	}
	return l.repeat.refresh(ctx, keys)
}

// Prune implements [Reconciler].
func (l *Loop[Obj]) Prune() { l.calls.ask(func(a *asked[Obj]) { a.prune = true }) }

// ApproveSweep requests a sweep now that may delete any number of objects, whatever [WithSweepBudget]
// sets. It is for a person who has seen in health that a sweep exceeded its budget, and knows why.
//
// It returns false, and does nothing, if the last sweep did not exceed its budget. The approval is
// used up by the next list of the target that succeeds. ApproveSweep does not wait for the sweep.
// Safe from any goroutine.
func (l *Loop[Obj]) ApproveSweep() bool {
	if !l.pruner.Refused() {
		return false
	}
	l.calls.ask(func(a *asked[Obj]) { a.approve = true })
	return true
}
