// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// wait blocks until there is a reason for another pass or ctx ends.
func (l *Loop[Obj]) wait(ctx context.Context, watch <-chan struct{}) inspect.Reason {
	for {
		at, reason, ok := l.next(watch)
		var clock <-chan time.Time
		if ok {
			clock = l.alarm.Set(at, l.now())
		} else {
			l.alarm.Stop()
		}
		select {
		case <-ctx.Done():
			return ""
		case <-watch:
			return inspect.ReasonChange
		case <-clock:
			l.alarm.Rang()
			return reason
		case <-l.pruner.Initialized():
			return inspect.ReasonInitialized
		case <-l.calls.made:
			if l.poll() {
				return inspect.ReasonPruneCall
			}
			return inspect.ReasonCall
		case <-l.pool.Ready:
			return inspect.ReasonLanded
		case <-l.blocked.Released():
			l.release()
			return inspect.ReasonReleased
		}
	}
}

// next returns what the clock has in store first, and when.
func (l *Loop[Obj]) next(watch <-chan struct{}) (at time.Duration, reason inspect.Reason, ok bool) {
	now := l.now()
	size, again, looks := l.capacity(now)
	due, has := l.core.NextDue()
	switch {
	case !looks, size == 0 && l.observer.Leftover():
		at, reason, ok = again, inspect.ReasonDue, again != never
	case watch == nil:
		// There was no use in looking a moment ago, and now there is.
		return now, inspect.ReasonMore, true
	case l.core.Count(core.Ready) > 0:
		// Another of its group has just been worked on: there is nothing to wait for but a
		// permit.
		at, reason, ok = max(again, now), inspect.ReasonMore, true
	case has:
		at, reason, ok = max(again, l.pace.DueAt(due, l.set.MinBackoff)), inspect.ReasonDue, true
	}
	if stuck, has := l.pool.NextStuck(); has && (!ok || stuck < at) {
		at, reason, ok = stuck, inspect.ReasonStuck, true
	}
	if prune, has := l.pruner.Next(); has && !l.pause.whole && (!ok || prune < at) {
		at, reason, ok = prune, inspect.ReasonPrune, true
	}
	return at, reason, ok
}

// pollReleased takes in the channels that have closed.
func (l *Loop[Obj]) pollReleased() {
	if !l.blocked.Any() {
		return
	}
	select {
	case <-l.blocked.Released():
		l.release()
	default:
	}
}

// release makes the keys due that waited for a channel which has closed.
func (l *Loop[Obj]) release() {
	now := l.now()
	l.blocked.Release(func(key string) { l.core.Release(key, now) })
}
