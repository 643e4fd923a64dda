// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/status"
)

const (
	// refreshBatch is the largest number of objects that are marked in one write
	// transaction. It bounds how long a fresh change waits behind a refresh.
	refreshBatch = 128
	// refreshGather is for how long a slow limiter's permits are gathered into one
	// batch.
	refreshGather = 100 * time.Millisecond
	// refreshPause is the shortest pause that a refresh makes: timers are no finer.
	refreshPause = time.Millisecond
)

// aged is an object whose status is old enough to be refreshed.
type aged[Obj any] struct {
	object   Obj
	revision statedb.Revision
}

// refresh is the job that marks Done objects as Refreshing when their status is older
// than the refresh interval. It walks the table in revision order, the longest
// unwritten first, and stops at the first that is too young.
func (l *Loop[Obj]) refresh(ctx context.Context, health cell.Health) error {
	on := false
	for ctx.Err() == nil {
		set := l.settings.Load()
		// Whatever it waits for, it is not to go on with settings that are not in force.
		during, end := context.WithCancel(ctx)
		ended := context.AfterFunc(set.refreshing, end)
		if set.RefreshInterval > 0 {
			on = true
		} else if on {
			on = false
			health.OK("Refreshing is off")
		}
		l.refreshEvery(during, &set.Settings, health)
		<-during.Done()
		ended()
		end()
	}
	return nil
}

// refreshEvery refreshes until ctx ends: what is old enough, if there is an interval, and
// what somebody calls for.
func (l *Loop[Obj]) refreshEvery(ctx context.Context, set *Settings, health cell.Health) {
	var seen statedb.Revision
	for {
		next := never
		if set.RefreshInterval > 0 || l.refreshBefore.Load() != 0 {
			var err error
			if next, err = l.refreshAged(ctx, set, &seen); err != nil {
				return
			}
		}
		if set.RefreshInterval > 0 {
			health.OK(fmt.Sprintf("Next refresh in %s", next))
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-l.refreshCalled:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// refreshAged marks everything that is due, batch by batch, and returns how long it is
// until the next object is. seen is the revision up to which objects have been looked
// at. The error is that of ctx.
func (l *Loop[Obj]) refreshAged(ctx context.Context, set *Settings, seen *statedb.Revision) (time.Duration, error) {
	interval, limiter := set.RefreshInterval, set.RefreshLimiter
	if interval == 0 {
		// Only what was called for.
		interval = never
	}
	most := refreshSize(limiter)
	size := most
	batch := make([]aged[Obj], 0, size)
	var owed time.Duration
	for {
		var next time.Duration
		batch, next = l.collectAged(batch[:0], size, interval, seen)
		if len(batch) == 0 {
			return next, ctx.Err()
		}
		if !permit(ctx, limiter, len(batch)) {
			return 0, ctx.Err()
		}
		began := time.Now()
		marked := l.markRefreshing(batch)
		clear(batch)
		// The next batch waits until this one, and every change before it, has been
		// attempted, and then for as long again: refreshing fills what fresh changes
		// leave of the loop's time, and never more than half of it.
		if _, _, err := l.progress.wait(ctx, marked, marked); err != nil {
			return 0, err
		}
		took := time.Since(began)
		// A batch takes the time that a turn does, or as many objects as fit: fresh
		// changes are not to wait for more.
		size = int(max(1, min(float64(most), float64(len(batch))*float64(turn)/float64(max(1, took)))))
		if owed += took; owed >= refreshPause {
			if !sleep(ctx, owed) {
				return 0, ctx.Err()
			}
			owed = 0
		}
	}
}

// collectAged appends up to size objects that are due to the batch, from the revision
// after seen on. It returns how long it is until there is another, if it found none.
func (l *Loop[Obj]) collectAged(batch []aged[Obj], size int, interval time.Duration, seen *statedb.Revision) ([]aged[Obj], time.Duration) {
	txn := l.cfg.DB.ReadTxn()
	now := time.Now()
	called, upTo := l.refreshBefore.Load(), l.refreshUpTo.Load()
	for object, revision := range l.cfg.Table.LowerBound(txn, statedb.ByRevision[Obj](*seen+1)) {
		s := l.cfg.GetStatus(object)
		// A status of the future is from a clock that was set back since.
		if age := now.Sub(s.UpdatedAt); age >= 0 && age < interval && !wasBefore(s.UpdatedAt, revision, called, upTo) {
			return batch, interval - age
		}
		*seen = revision
		if s.Kind != status.KindDone {
			continue
		}
		batch = append(batch, aged[Obj]{object, revision})
		if len(batch) == size {
			break
		}
	}
	return batch, interval
}

// wasBefore reports whether a status was written before a call for a refresh, which was made at
// a time and a revision of the table. Where time stands still, as in a test, only the
// revision tells; else another reconciler may have written the row since.
func wasBefore(at time.Time, revision statedb.Revision, called int64, upTo statedb.Revision) bool {
	return at.UnixNano() < called || at.UnixNano() == called && revision <= upTo
}

// markRefreshing marks the objects that have not been written since, in one
// transaction, and returns the revision of the table after it. An object that was
// written is looked at again in its turn.
func (l *Loop[Obj]) markRefreshing(batch []aged[Obj]) statedb.Revision {
	at := time.Now()
	for i := range batch {
		batch[i].object = l.cfg.SetStatus(l.cfg.Clone(batch[i].object), status.RefreshingAt(at))
	}
	wtxn := l.cfg.DB.WriteTxn(l.cfg.Table)
	defer wtxn.Abort()
	for i := range batch {
		// A conflict is no error here: see above.
		_, _, _ = l.cfg.Table.CompareAndSwap(wtxn, batch[i].revision, batch[i].object)
	}
	return l.cfg.Table.Revision(wtxn.Commit())
}

// refreshSize returns the size of batches under a limiter: what it allows in a
// tenth of a second, up to refreshBatch.
func refreshSize(limiter *rate.Limiter) int {
	if limiter == nil {
		return refreshBatch
	}
	return int(max(1, min(float64(limiter.Limit())*refreshGather.Seconds(), refreshBatch)))
}

// permit blocks until the limiter allows n more refreshes, and returns false if ctx
// ends before. A batch may be larger than the limiter's burst: it is marked when the
// last of its objects may be.
func permit(ctx context.Context, limiter *rate.Limiter, n int) bool {
	if limiter == nil {
		return ctx.Err() == nil
	}
	now := time.Now()
	reserved := make([]*rate.Reservation, n)
	for i := range reserved {
		reserved[i] = limiter.ReserveN(now, 1)
	}
	if sleep(ctx, reserved[n-1].DelayFrom(now)) {
		return true
	}
	for _, r := range slices.Backward(reserved) {
		r.Cancel()
	}
	return false
}
