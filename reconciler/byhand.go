// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/progress"
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
	told, err := ask(ctx, l, func(*books[Obj]) (a answer) {
		if len(keys) == 0 {
			a.n = l.core.RetryAllNow(l.now())
			return a
		}
		for _, key := range keys {
			s := l.view.look(key)
			switch {
			case s.standing != nil && l.core.RetryNow(string(s.key), l.now()):
				a.n++
			case s.standing == nil && !s.found:
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

// WaitAll is [Loop.Wait] for all that is in the table when it is called.
func (l *Loop[Obj]) WaitAll(ctx context.Context, m Milestone) (inspect.Unapplied, error) {
	w := progress.NewWait[account[Obj]](0, m)
	w.All = true
	return l.awaitRevision(ctx, w)
}

// WaitKey is [Loop.WaitFor] for the object with a key, which is as [Loop.Explain] takes it:
// a row of the table, or one of which only the deletion is left. The error is [inspect.ErrNotFound]
// if nobody knows of it; then, if it was there, it is gone from the target. That is said when
// everything has been attempted that was changed before the call: until then there may be a
// deletion that the reconciler has not looked at.
func (l *Loop[Obj]) WaitKey(ctx context.Context, key string, m Milestone) (inspect.Unapplied, error) {
	if err := l.mayWait(ctx); err != nil {
		return inspect.Unapplied{}, err
	}
	revision := l.rows.Revision()
	s := l.sightBriefly(ctx, key)
	if !s.found && s.standing == nil {
		if rest, err := l.Wait(ctx, revision, Attempted); err != nil {
			return rest, err
		}
		s = l.sightBriefly(ctx, key)
	}
	switch {
	case s.found:
		return l.WaitFor(ctx, m, s.row)
	case s.standing != nil:
		return l.WaitFor(ctx, m, s.standing.Obj)
	}
	return inspect.Unapplied{}, fmt.Errorf("reconciler %q: %w", l.ID(), notFound(key))
}

// sightBriefly returns what can be seen of an object without waiting long.
func (l *Loop[Obj]) sightBriefly(ctx context.Context, key string) sight[Obj] {
	s, err := askBriefly(ctx, l, func(*books[Obj]) sight[Obj] { return l.view.look(key) })
	if err != nil {
		return l.view.glance(key)
	}
	return s
}
