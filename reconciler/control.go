// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

func checkKeys(keys []string) error {
	if len(keys) > inspect.MaxKeys {
		return fmt.Errorf("%d keys are too many for one call: at most %d", len(keys), inspect.MaxKeys)
	}
	return nil
}

// notFound is the error for a key that is not known, which may be any text.
func notFound(key string) error {
	return fmt.Errorf("%w: %s", inspect.ErrNotFound, text.Plain(text.Short(key, maxKeyText)))
}

// maxKeyText is how many bytes of a key an error has.
const maxKeyText = 256

// Retry makes what waits for a retry, a requeue, a release or a minimum backoff be due now,
// and retries what failed for good: the objects with the given keys, which are as
// [Loop.Explain] takes them, or all, if there are none. An open breaker still lets only its
// probes through. It returns how many objects that were: fewer than keys if some do not wait.
// The error is [inspect.ErrNotFound] for a key that nobody knows, [inspect.ErrStopped], [ErrInOperation], or
// that of ctx. Of keys there may be [inspect.MaxKeys]. It does not wait for the operations that it makes due, but for the loop to take
// it in. Safe from any goroutine.
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
	told, err := ask(ctx, l, func(*answers[Obj]) (a answer) {
		if len(keys) == 0 {
			a.n = l.runner.core.RetryAllNow(l.now())
			return a
		}
		for _, key := range keys {
			s := l.view.look(key)
			switch {
			case s.info != nil && l.runner.core.RetryNow(string(s.key), l.now()):
				a.n++
			case s.info == nil && !s.found:
				a.errs = append(a.errs, notFound(key))
			}
		}
		return a
	})
	if err != nil {
		return 0, fmt.Errorf("reconciler %q: %w", l.ID(), err)
	}
	return told.n, errors.Join(told.errs...)
}

// Refresh marks objects that are Done for a refresh: those with the given keys, which are
// as [Loop.Explain] takes them, and at once; or all that are Done and not written after the
// call, if there are none, by and by, in the order of their keys and within the limit of
// [WithRefreshing]. A second call for all starts over. It returns how many of the given ones it marked: one that
// is not Done is on its way already, or waits for something else than a refresh. The error
// is [inspect.ErrNotFound] for a key that the table does not have, that there are more than [inspect.MaxKeys], and [inspect.ErrStopped] for all after
// the reconciler has stopped. It does not wait for the
// operations; a program that is to wait for them writes the status Refreshing into all
// rows in one transaction, and waits for its revision. Safe from any goroutine.
func (l *Loop[Obj]) Refresh(_ context.Context, keys ...string) (int, error) {
	if len(keys) == 0 && l.stopped() {
		return 0, fmt.Errorf("reconciler %q: %w", l.ID(), inspect.ErrStopped)
	} else if len(keys) == 0 {
		l.refresher.RefreshAll()
		return 0, nil
	}
	if err := checkKeys(keys); err != nil {
		return 0, err
	}
	wtxn := l.rows.DB.WriteTxn(l.rows.Table)
	defer wtxn.Abort()
	n := 0
	var errs []error
	for _, key := range keys {
		marked, err := l.refreshOne(wtxn, key)
		if err != nil {
			errs = append(errs, err)
		}
		if marked {
			n++
		}
	}
	wtxn.Commit()
	return n, errors.Join(errs...)
}

func (l *Loop[Obj]) refreshOne(wtxn statedb.WriteTxn, name string) (marked bool, err error) {
	for _, key := range l.rows.Keys(name) {
		row, _, found := l.rows.ByKey(wtxn, key)
		if !found {
			continue
		}
		if l.rows.GetStatus(row).Kind != status.KindDone {
			return false, nil
		}
		_, _, err := l.rows.Table.Insert(wtxn, l.rows.SetStatus(l.rows.Clone(row), status.Refreshing()))
		return err == nil, err
	}
	return false, notFound(name)
}

// Prune implements [Reconciler].
func (l *Loop[Obj]) Prune() { l.calls.ask(func(a *asked[Obj]) { a.prune = true }) }

// ApproveSweep asks for a sweep now that may delete any number of objects, whatever
// [WithSweepBudget] says. It is for a person who has seen in health that a sweep stopped at
// its budget, and knows why. It holds for one listing that succeeds; if that of the sweep
// fails it holds for the next. It does not wait for the sweep. If the last sweep did not stop at its
// budget it does nothing and returns false. Safe from any goroutine.
func (l *Loop[Obj]) ApproveSweep() bool {
	if !l.pruner.Refused() {
		return false
	}
	l.calls.ask(func(a *asked[Obj]) { a.approve = true })
	return true
}
