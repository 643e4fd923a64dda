// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// Refresh applies objects that are Done again, and no others: use [Loop.Retry] for a failed one,
// also after a [TerminalError], or [Loop.Reapply]. It does not wait for the operations.
//
// With keys, which are as for [Loop.Explain], it returns how many objects it refreshes. It leaves an
// object that is not Done as it is, without an error. The error joins [inspect.ErrNotFound] for each
// key that is not in the table; more than [inspect.MaxKeys] keys are an error. Refresh with keys blocks until the loop
// has taken the objects, as [Loop.Reapply] does, with the same errors.
//
// Without keys it refreshes all rows that are Done and were not written after the call. It returns 0 at
// once; the rows are taken in the background, in the order of their keys and within
// [Settings].RefreshLimiter, even if periodic refreshing is off. A second call starts again from the first
// key. After the reconciler has stopped the error is [inspect.ErrStopped].
//
// Nothing is written before the operation ends: an object that is refreshed stays Done until then. A program whose rows
// carry the status may also set it to [StatusRefreshing], and wait for the revision of that with [Loop.Wait]. Safe from
// any goroutine.
func (l *Loop[Obj]) Refresh(ctx context.Context, keys ...string) (int, error) {
	if len(keys) == 0 && l.life.stopped() {
		return 0, fmt.Errorf("reconciler %q: %w", l.ID(), inspect.ErrStopped)
	} else if len(keys) == 0 {
		walk := l.refresher.WalkAll()
		l.calls.ask(func(a *asked[Obj]) { a.refresh = walk })
		return 0, nil
	}
	if err := checkKeys(keys); err != nil {
		return 0, err
	}
	if err := l.mayWait(ctx); err != nil {
		return 0, err
	}
	told, err := ask(ctx, l.view, func(b *answers[Obj]) (a acted) {
		txn := l.rows.DB.ReadTxn()
		for _, key := range keys {
			_, row, revision, found := l.rows.Named(txn, key, nil)
			switch {
			case !found:
				a.errs = append(a.errs, notFound(key))
			case l.ledger.Status(txn, row, revision).Kind == status.KindDone:
				b.r.refreshRow(row, revision, core.CauseRefresh, false)
				a.n++
			}
		}
		return a
	})
	if err != nil {
		return 0, fmt.Errorf("reconciler %q: %w", l.ID(), err)
	}
	return told.n, errors.Join(told.errs...)
}

// Reapply applies objects again although their rows have not changed, for example because the
// target has lost them, or because something has changed that the operations read. Only the primary
// keys of objs matter. Objects that the table does not have are left alone, and so are those with a
// change that the loop has not read, which is applied anyway.
//
// Nothing is written: an object that is Done stays so until the operation ends, and no wait that covers an earlier
// change of an object ends by the call. Objects that are Done are refreshed. Failed and blocked ones are due, but not
// before their minimum backoff has passed. If an operation on an object is running, its success does not count, and the
// object is applied once more. A row with a zero status is left alone. The error joins one for each object for which
// the primary index makes no key or one above 65,535 bytes, which is left out. After the reconciler has stopped it is
// [inspect.ErrStopped].
//
// Reapply returns how many operations are running on the objects. It blocks until the loop has taken the objects, also
// during a pause, but not for their operations; before the loop runs, until it does. If ctx ends first, the error is
// that of ctx, and the loop may still take some of the objects. An object waits once to be applied again, however many
// calls ask for it.
//
// Safe from any goroutine, but not in an operation of this reconciler: the error is
// [ErrInOperation].
func (l *Loop[Obj]) Reapply(ctx context.Context, objs ...Obj) (inFlight int, err error) {
	keyed, err := l.mayHand(ctx, objs, "apply again")
	if !running.Follows(ctx) {
		for _, obj := range keyed {
			// A call that comes before the row is read counts, too.
			l.runner.resync.Refuse(obj)
		}
	}
	for some := range slices.Chunk(keyed, atOnce) {
		n, failed := ask(ctx, l.view, func(b *answers[Obj]) int { return b.r.hand(some, core.CauseRefresh) })
		if failed != nil {
			return 0, errors.Join(err, fmt.Errorf("reconciler %q: %w", l.ID(), failed))
		}
		inFlight += n
	}
	return inFlight, err
}

// atOnce bounds the objects that the loop takes from a call of Reapply or Verify between two rounds.
const atOnce = 1024

// mayHand returns the objects that have a key. The error joins one for each other object. If the loop takes none from this
// context, or has stopped, it returns none. what is for the error.
func (l *Loop[Obj]) mayHand(ctx context.Context, objs []Obj, what string) (keyed []Obj, err error) {
	if err := l.mayWait(ctx); err != nil {
		return nil, err
	}
	if l.life.stopped() {
		return nil, inspect.ErrStopped
	}
	var errs []error
	for i, obj := range objs {
		if _, err := l.rows.KeyOf(obj); err != nil {
			errs = append(errs, fmt.Errorf("reconciler %q: object %d of %d to %s: %w", called(l.ID()), i, len(objs), what, err))
		} else {
			keyed = append(keyed, obj)
		}
	}
	return keyed, errors.Join(errs...)
}

// hand gives the core objects to apply again or to look at, and returns how many operations are running on them.
func (r *runner[Obj]) hand(objs []Obj, why core.Cause) (inFlight int) {
	txn := r.shared.rows.DB.ReadTxn()
	for _, obj := range objs {
		row, revision, found := r.shared.rows.Get(txn, obj)
		if why == core.CauseVerify && r.fights.Contends(obj) {
			continue
		}
		if found && r.refreshRow(row, revision, why, why == core.CauseRefresh) {
			inFlight++
		}
	}
	return inFlight
}

// refreshRow gives the core a row of the table to apply again, and reports whether an operation on its
// object is running. A change that no cursor has read is left to them, unless it ran already, or an operation runs: that may
// have begun before the call, and with this version or one that asks for the same.
func (r *runner[Obj]) refreshRow(row Obj, revision uint64, why core.Cause, forced bool) (running bool) {
	asks := r.shared.rows.Asked(row)
	if asks.Kind == status.KindUnset {
		return false
	}
	unread := asks.IsPendingOrRefreshing() && revision > r.observer.Revision() && !r.observer.Applied(row, revision)
	if unread && !r.core.HasVersion(row, revision) {
		return false
	}
	return r.core.Refresh(r.life.now(), row, revision, why, forced)
}

// refresh gives the core rows that are due for a refresh, or that a resync found missing or different.
func (r *runner[Obj]) refresh() {
	if r.paused.whole {
		return
	}
	size, _ := r.refreshRoom(r.this.began)
	batch, why := r.shared.refresher.Take(r.set.RefreshInterval, size)
	for i := range batch {
		cause := why
		if why == core.CauseRepair && r.resync.Wrong(batch[i].Object) == "" {
			cause = core.CauseVerify
		}
		r.refreshRow(batch[i].Object, batch[i].Revision, cause, false)
		if l := r.set.RefreshLimiter; l != nil {
			l.Reserve()
		}
	}
}

// nextRefresh returns when the loop may give the core the next rows to refresh; false if that is not before another
// event. It may be in the past.
func (r *runner[Obj]) nextRefresh(now time.Duration) (at time.Duration, ok bool) {
	due, ok := r.shared.refresher.Next()
	if at = due.Sub(r.life.started); !ok || r.paused.whole || at > now {
		return at, ok && !r.paused.whole
	}
	_, at = r.refreshRoom(now)
	return at, at != never
}

const (
	// leastShare is how many refreshes may wait in their lane if rounds are small: a fresh change waits behind as many
	// at most if they are called as one batch.
	leastShare = 128
	// gather is the time for which RefreshLimiter is drawn on in advance, so that not each of its permits causes a round.
	// gatherBatch is that for batches: a call may be slow however few objects it has.
	gather      = 100 * time.Millisecond
	gatherBatch = time.Second
)

// refreshRoom returns how many rows the core may be given to refresh. If that is none, it also returns the time at which
// it may be some: never if the lane of refreshes is full.
func (r *runner[Obj]) refreshRoom(now time.Duration) (n int, at time.Duration) {
	n = min(r.set.RoundSize, max(leastShare, r.set.RoundSize/8)) - r.core.Index.LaneSize(core.Refresh)
	if n <= 0 {
		return 0, never
	}
	allowed, at := permits(r.set.RefreshLimiter, now)
	if l := r.set.RefreshLimiter; l != nil && allowed > 0 {
		ahead := gather
		if r.shared.execution.config.IsBatched() {
			ahead = gatherBatch
		}
		allowed = max(allowed, int(min(float64(l.Limit())*ahead.Seconds(), float64(n))))
	}
	return min(n, allowed), at
}
