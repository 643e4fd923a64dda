// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// queues are the places in which a change waits that is not attempted. fill makes the latest change of
// an object wait there; stuck operations end when done is closed. revision reports that no other change
// is unattempted, so that a wait for the revision is over, too.
var queues = []struct {
	name     string
	id       uint64
	revision bool
	fill     func(e *env, done <-chan struct{})
}{
	{"behind a stuck one of its group", 2, true, func(e *env, done <-chan struct{}) {
		e.hanging(done, 1)
		e.put(1, 2)
	}},
	{"a deletion behind a stuck one of its group", 2, true, func(e *env, done <-chan struct{}) {
		e.put(1, 2)
		synctest.Wait()
		e.hanging(done, 1)
		e.remove(2)
	}},
	{"behind its own stuck operation", 1, true, func(e *env, done <-chan struct{}) {
		e.hanging(done, 1)
		e.put(2, 1)
	}},
	{"a deletion behind its own stuck operation", 1, true, func(e *env, done <-chan struct{}) {
		e.hanging(done, 1)
		e.remove(1)
	}},
	{"behind its first operation, which is stuck", 1, false, func(e *env, done <-chan struct{}) {
		e.hook(func(context.Context, call) { <-done })
		e.put(1, 1)
		synctest.Wait()
		e.put(2, 1)
	}},
	{"held after a failure", 1, false, func(e *env, _ <-chan struct{}) {
		e.target.failing("no")
		e.put(1, 1)
		synctest.Wait()
		e.target.failing("")
		e.put(2, 1)
	}},
	{"unread, behind an open breaker", 3, false, func(e *env, _ <-chan struct{}) {
		e.target.failing("no")
		e.put(1, 1, 2)
		synctest.Wait()
		e.target.failing("")
		e.put(1, 3)
	}},
	{"unread, with no free worker", 4, false, func(e *env, done <-chan struct{}) {
		e.hook(func(context.Context, call) { <-done })
		e.put(1, 1, 3)
		synctest.Wait()
		e.put(1, 4)
	}},
}

// hanging runs operations that hang until done is closed: runs, asked for by a requeue, of objects that
// have been attempted.
func (e *env) hanging(done <-chan struct{}, ids ...uint64) {
	e.target.deciding(func(call) error { return reconciler.Requeue(time.Second) })
	e.put(1, ids...)
	synctest.Wait()
	e.target.deciding(nil)
	e.hook(func(_ context.Context, c call) {
		if c.id == ids[0] {
			<-done
		}
	})
	e.pass(2 * time.Second)
}

// oneAndTwo puts the objects 1 and 2 into a group.
func oneAndTwo(o *object) string {
	if o.ID <= 2 {
		return "one and two"
	}
	return ""
}

// A paused object counts as attempted from when the pause begins, not from when its turn comes.
func TestPausedObjectCountsAsAttemptedInEveryQueue(t *testing.T) {
	for _, q := range queues {
		for name, ledger := range map[string]configure{"in the rows": nil, "beside": beside} {
			t.Run(q.name+", "+name, func(t *testing.T) {
				inBubble(t, func(e *env) {
					done := make(chan struct{})
					release := sync.OnceFunc(func() { close(done) })
					defer release()
					q.fill(e, done)
					e.pass(time.Second)
					revision := e.table.Revision(e.db.ReadTxn())
					over, until := e.waitFor(reconciler.Attempted, q.id), e.wait(revision, reconciler.Attempted)
					e.pass(time.Minute)
					e.goesOn(over)
					e.loop.PauseObjects(only(q.id))
					w := e.isOver(over, time.Minute)
					require.NoError(e, w.err)
					require.Len(e, w.unapplied.Keys, 1)
					if q.revision {
						e.isOver(until, time.Minute)
					}
					applied := e.waitFor(reconciler.Applied, q.id)
					release()
					e.pass(3 * time.Hour)
					e.goesOn(applied)
					e.loop.Resume()
					e.pass(3 * time.Hour)
					e.nothingUnapplied(<-applied)
				}, both(ledger, serially(oneAndTwo)),
					reconciler.WithoutPruning(), reconciler.WithRetry(time.Hour, time.Hour),
					reconciler.WithBreaker(reconciler.Breaker{Failures: 2, MinInterval: time.Hour, MaxInterval: time.Hour}),
					reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
			})
		}
	}
}

// The catch-up cursor reads the deletion, and main does so only at the end of the backlog.
func TestPausedDeletionCountsAsAttemptedAheadOfABacklog(t *testing.T) {
	for name, ledger := range map[string]configure{"in the rows": nil, "beside": beside} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.put(1, 1)
				e.pass(time.Second)
				e.target.takes(10 * time.Millisecond)
				e.put(1, ids(1001, 21_000)...)
				e.pass(time.Second)
				e.pause(1)
				// All workers are busy, so that the loop looks at the wait before it reads the deletion.
				e.pass(time.Millisecond)
				e.remove(1)
				over := e.waitFor(reconciler.Attempted, 1)
				e.pass(100 * time.Millisecond)
				w := <-over
				require.NoError(e, w.err)
				require.Less(e, w.took, 50*time.Millisecond)
				require.Len(e, w.unapplied.Keys, 1)
			}, ledger, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }))
		})
	}
}
