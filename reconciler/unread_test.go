// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// deletions returns the keys of all pages of the list of deletions.
func (e *env) deletions(limit, maxPages int) (keys []string) {
	e.Helper()
	query := inspect.ObjectQuery{Status: "Deleted", Limit: limit}
	for pages := 0; pages == 0 || query.After != ""; pages++ {
		require.Less(e, pages, maxPages, "pages")
		page := e.objects(query)
		require.LessOrEqual(e, len(page.Objects), limit)
		for _, line := range page.Objects {
			keys = append(keys, line.Key)
		}
		query.After = page.Next
	}
	return keys
}

func TestDeletionsAreListedBehindManyOlderUnappliedChanges(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2, 3)
		e.pass(time.Second)
		e.loop.PauseObjects(func(*object) bool { return true })
		e.remove(2)
		e.put(1, ids(1001, 1000+45_000)...)
		e.pass(time.Minute)
		e.remove(3)
		e.remove(1)
		e.pass(time.Second)
		require.Equal(e, []string{"2", "3", "1"}, e.deletions(1000, 4))
		require.Equal(e, []string{"2", "3", "1"}, e.deletions(1, 6))
		e.loop.Resume()
		e.pass(time.Minute)
		require.Empty(e, e.deletions(1000, 1))
	}, nil)
}

// All orphans of a sweep are unreconciled since the same revision.
func TestManyOrphansOfASweepAreListedOnceEach(t *testing.T) {
	const orphans = 20_500
	var s *lister
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("in use")
			}
			return nil
		})
		e.target.strays(ids(1, orphans)...)
		require.Equal(e, orphans, e.sweep().Swept)
		e.pass(time.Minute)
		listed := map[string]bool{}
		for _, key := range e.deletions(1000, orphans/1000+2) {
			require.False(e, listed[key], key)
			listed[key] = true
		}
		require.Len(e, listed, orphans)
	}, func(e *env, cfg *reconciler.Config[*object]) {
		s = &lister{target: e.target}
		cfg.Sweeper = s
	}, reconciler.WithRetry(time.Hour, time.Hour), reconciler.WithoutPruning())
}

func TestExplainAndRetryNameDeletionsThatAreUnread(t *testing.T) {
	const unread = "not in the table; deletions after revision 2 are unread: if it was deleted since, that is still to come"
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.loop.Pause()
		e.pass(time.Second)
		e.remove(1)
		e.pass(time.Second)
		x := e.loop.Explain(e.Context(), "1")
		require.Equal(e, inspect.StateAbsent, x.State)
		require.Equal(e, unread, x.Why)
		_, err := e.loop.Retry(e.Context(), "1")
		require.ErrorIs(e, err, inspect.ErrNotFound)
		require.ErrorContains(e, err, unread)
		e.resume()
		e.pass(time.Second)
		require.Equal(e, "not in the table, and nothing is left to be done for it", e.loop.Explain(e.Context(), "1").Why)
	}, nil)
}

// The catch-up cursor reads some deletions before the main cursor does.
func TestExplainDoesNotAnnounceADeletionThatMayBeDone(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.target.takes(time.Millisecond)
		e.put(1, ids(1001, 11_000)...)
		e.pass(time.Second)
		e.remove(1)
		e.pass(time.Second)
		require.Contains(e, e.target.calls(), "delete(1)")
		why := e.loop.Explain(e.Context(), "1").Why
		require.Contains(e, why, "some deletions after revision")
		require.Contains(e, why, "may be still to come")
		e.pass(time.Minute)
		require.Contains(e, e.loop.Explain(e.Context(), "1").Why, "nothing is left to be done")
	}, nil)
}

// The loop has read everything up to a row, which is deleted before its operation begins, and not the deletion.
func TestWaitForOfADeletedObjectEndsWithItsLastDeletion(t *testing.T) {
	for _, ledger := range []struct {
		name   string
		change func(*env, *reconciler.Config[*object])
	}{{"in the rows", nil}, {"beside", beside}} {
		t.Run(ledger.name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.hook(func(context.Context, call) { time.Sleep(10 * time.Millisecond) })
				e.put(1, 1, 2, 3)
				e.pass(time.Second)
				e.loop.Pause()
				e.put(2, 2, 3)
				e.remove(1)
				over := make(chan bool, 1)
				go func() {
					_, err := e.loop.WaitFor(e.Context(), reconciler.Applied, &object{ID: 1})
					over <- err == nil && len(e.target.holds()) == 2
				}()
				e.pass(time.Second)
				e.put(2, 1)
				e.loop.Resume()
				e.pass(5 * time.Millisecond)
				require.Len(e, e.target.holds(), 3)
				e.remove(1)
				e.pass(time.Second)
				require.True(e, <-over, "the object is not in the target")
			}, ledger.change, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.RoundSize = 2, 2 }))
		})
	}
}

// The key is in the table when the main cursor takes its snapshot, so that its first deletion is gone from the
// changes. It is deleted again before its row is read, and the main cursor has passed the revision of the wait.
func TestWaitForOfADeletedObjectOutlastsAnUnreadDeletion(t *testing.T) {
	for _, ledger := range []struct {
		name   string
		change func(*env, *reconciler.Config[*object])
	}{{"in the rows", nil}, {"beside", beside}} {
		t.Run(ledger.name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.put(1, ids(1, 20)...)
				e.pass(time.Second)
				e.target.take()
				e.hook(func(context.Context, call) { time.Sleep(time.Millisecond) })
				e.loop.Pause()
				e.remove(1)
				over := make(chan bool, 1)
				go func() {
					_, err := e.loop.WaitFor(e.Context(), reconciler.Applied, &object{ID: 1})
					_, there := e.target.holds()[1]
					over <- err == nil && !there
				}()
				e.pass(time.Second)
				e.put(2, ids(2, 20)...)
				e.put(2, 1)
				e.loop.Resume()
				e.pass(2 * time.Millisecond)
				e.remove(1)
				e.pass(time.Second)
				require.True(e, <-over, "the object is not in the target")
				require.NotContains(e, e.target.calls(), "update(1)")
			}, ledger.change)
		})
	}
}
