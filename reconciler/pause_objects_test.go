// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// only returns a predicate for the objects with the IDs.
func only(ids ...uint64) func(*object) bool {
	return func(o *object) bool { return slices.Contains(ids, o.ID) }
}

// pause pauses objects, and waits until the loop has observed the pause.
func (e *env) pause(ids ...uint64) {
	e.loop.PauseObjects(only(ids...))
	synctest.Wait()
}

func (e *env) resume() {
	e.loop.Resume()
	synctest.Wait()
}

// All objects but the paused ones are reconciled, and health shows the paused ones.
func TestPausedObjectsWaitAndOthersGoOn(t *testing.T) {
	everyWay(t, func(e *env) {
		e.put(1, 3)
		synctest.Wait()
		e.target.take()
		e.pause(1, 3)
		e.put(1, 1, 2)
		e.remove(3)
		e.pass(24 * time.Hour)
		require.Equal(e, []string{"update(2)"}, e.target.calls())
		require.Equal(e, reconciler.StatusKindPending, e.kind(1))
		level, message, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level)
		require.Equal(e, "OK, 2 object(s), 2 paused", message)

		start := time.Now()
		e.resume()
		require.Equal(e, start, time.Now(), "at once")
		require.ElementsMatch(e, []string{"update(1)", "delete(3)"}, e.target.calls())
		e.eachDone()
		_, message, _ = e.health.Now()
		require.Equal(e, "OK, 2 object(s)", message)
	})
}

// Only the latest change of a pause is applied.
func TestOnlyTheLatestChangeOfAPauseIsApplied(t *testing.T) {
	everyWay(t, func(e *env) {
		e.pause(1, 2, 3)
		for value := range 10 {
			e.put(value, 1, 2, 3)
			e.pass(time.Second)
		}
		e.remove(2, 3)
		e.pass(time.Second)
		e.put(10, 3)
		e.pass(time.Hour)
		require.Empty(e, e.target.calls())
		e.resume()
		e.eachDone()
		calls := e.target.take()
		require.Len(e, calls, 3)
		for _, c := range calls {
			require.NotEqual(e, "update(2)", c.String())
		}
	})
}

// A later predicate replaces the earlier one: objects that are no longer paused run.
func TestLaterPredicateReplacesTheEarlierOne(t *testing.T) {
	everyWay(t, func(e *env) {
		e.pause(1, 2)
		e.put(1, ids(1, 4)...)
		e.pass(time.Second)
		require.ElementsMatch(e, []string{"update(3)", "update(4)"}, e.target.calls())
		e.pause(2, 3)
		require.Equal(e, []string{"update(1)"}, e.target.calls())
		e.put(2, 1, 3)
		e.pass(time.Second)
		require.Equal(e, []string{"update(1)"}, e.target.calls())
		e.loop.PauseObjects(func(*object) bool { return false })
		synctest.Wait()
		require.ElementsMatch(e, []string{"update(2)", "update(3)"}, e.target.calls())
		e.eachDone()
	})
}

// A paused object does not run when its time comes, whatever it waits for. If its time came during
// the pause, it is due at once after the resume.
func TestPausedObjectIsNotRunWhenItsTimeComes(t *testing.T) {
	everyWay(t, func(e *env) {
		door := e.waiting()
		e.pause(ids(1, 7)...)
		e.pass(20 * time.Second)
		close(door)
		e.pass(time.Hour)
		require.Empty(e, e.target.calls())
		// The done and the terminal object were not due.
		_, message, _ := e.health.Now()
		require.Contains(e, message, "3 error(s)")
		start := time.Now()
		e.resume()
		require.Equal(e, start, time.Now(), "at once")
		calls := e.target.calls()
		require.Len(e, calls, 4)
		for _, id := range []string{"update(2) fail", "update(3) fail", "update(5) fail", "update(6)"} {
			require.Contains(e, calls, id)
		}
		e.target.failing("")
		e.put(2, 4)
		e.pass(time.Minute)
		e.eachDone()
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
}

// An object whose time comes after the resume waits for that time as if there had been no pause.
func TestPauseThatEndsBeforeTheRetryChangesNothing(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.deciding(func(call) error { return reconciler.RetryAfter(errPlain, time.Minute) })
		start := time.Now()
		e.put(1, 1)
		e.pass(10 * time.Second)
		e.pause(1)
		e.pass(20 * time.Second)
		e.resume()
		e.pass(70 * time.Second)
		require.Equal(e, seconds(0, 60), since(start, e.target.take()))
	})
}

// An operation that runs when its object is paused finishes, and its outcome is written. Its retry
// waits.
func TestObjectPausedInFlightIsFinished(t *testing.T) {
	for _, outcome := range []error{nil, errPlain} {
		everyWay(t, func(e *env) {
			e.target.before = func(context.Context, call) { time.Sleep(time.Second) }
			e.target.deciding(func(call) error { return outcome })
			e.put(1, 1)
			e.pass(500 * time.Millisecond)
			e.loop.PauseObjects(only(1))
			e.pass(time.Hour)
			require.Len(e, e.target.take(), 1)
			if outcome == nil {
				e.status(1, reconciler.StatusKindDone, "")
			} else {
				e.status(1, reconciler.StatusKindError, "plain")
			}
			e.put(2, 1)
			e.pass(time.Hour)
			require.Empty(e, e.target.take())
			e.target.failing("")
			e.loop.Resume()
			e.pass(time.Minute)
			e.eachDone()
		})
	}
}

// Pausing all objects reads each of them once.
func TestPausedObjectsAreReadOnce(t *testing.T) {
	const backlog = 5000
	var p passes
	everyWayWith(t, func(e *env, cfg *reconciler.Config[*object]) { p.count(e, cfg); countReads(e, cfg) }, func(e *env) {
		e.loop.PauseObjects(func(*object) bool { return true })
		synctest.Wait()
		e.put(1, ids(1, backlog)...)
		e.pass(time.Minute)
		require.Empty(e, e.target.calls())
		_, message, _ := e.health.Now()
		require.Equal(e, "OK, 5000 object(s), 5000 paused", message)
		counted.Store(0)
		require.Zero(e, p.during(func() { e.pass(24 * time.Hour) }))
		require.Zero(e, counted.Load())

		// An object that is not paused runs at once, at the cost of one object.
		e.loop.PauseObjects(func(o *object) bool { return o.ID <= backlog })
		synctest.Wait()
		counted.Store(0)
		e.put(1, backlog+1)
		synctest.Wait()
		require.Equal(e, reconciler.StatusKindDone, e.kind(backlog+1))
		require.Less(e, counted.Load(), int64(100))
		e.loop.Resume()
		e.pass(time.Minute)
		e.eachDone()
	}, reconciler.WithRoundLimits(100, nil))
}

// A wait for a revision does not wait for paused objects: they count as attempted, and the returned
// watermark shows them as unreconciled.
func TestWaitUntilReconciledDoesNotWaitForPausedObjects(t *testing.T) {
	everyWay(t, func(e *env) {
		e.pause(1)
		first := e.put(1, 1)
		revision := e.put(1, 2, 3)
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, low, err := e.loop.WaitUntilReconciled(ctx, revision)
		require.NoError(e, err)
		require.Equal(e, start, time.Now())
		require.Equal(e, first, low)
		e.pass(time.Second)
		e.resume()
		_, low, err = e.loop.WaitUntilReconciled(ctx, e.table.Revision(e.db.ReadTxn()))
		require.NoError(e, err)
		require.Zero(e, low)
	})
}

// A prune gets paused objects. It may remove an object whose deletion is paused.
func TestPruneGetsPausedObjects(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2, 3)
		e.pass(time.Second)
		e.pause(1, 2, 4)
		e.put(2, 1, 4)
		e.remove(2)
		e.pass(time.Second)
		e.loop.Prune()
		e.pass(time.Second)
		require.Equal(e, map[uint64]int{1: 1, 3: 1}, e.target.holds())
		e.target.take()
		e.resume()
		require.ElementsMatch(e, []string{"update(1)", "update(4)", "delete(2)"}, e.target.calls())
		e.eachDone()
	}, nil)
}

// A paused object does not hold up the other objects of its group, whether or not it is its turn.
func TestPausedObjectDoesNotHoldUpItsGroup(t *testing.T) {
	eachConcurrency(t, "group", func(e *env) {
		e.target.before = func(context.Context, call) { time.Sleep(time.Second) }
		e.put(1, ids(1, 3)...)
		e.pass(500 * time.Millisecond)
		e.loop.PauseObjects(only(2))
		e.pass(10 * time.Second)
		require.Equal(e, []string{"update(1)", "update(3)"}, e.target.calls())
		e.loop.Resume()
		e.pass(10 * time.Second)
		e.eachDone()
	}, serially(func(*object) string { return "all" }))
}

// A failed object that is deleted while it is paused is deleted from the target at the resume,
// without waiting for its backoff.
func TestPausedDeletionDoesNotWaitForTheBackoff(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		e.pass(time.Hour)
		e.pause(1)
		e.remove(1)
		e.pass(time.Hour)
		e.target.take()
		e.target.failing("")
		e.resume()
		require.Equal(e, []string{"delete(1)"}, e.target.calls())
		level, message, _ := e.health.Now()
		require.Equal(e, "OK OK, 0 object(s)", string(level)+" "+message)
	})
}

// Pauses and resumes in any order lose no change.
func TestManyPausesLoseNothing(t *testing.T) {
	everyWay(t, func(e *env) {
		n := 0
		e.target.before = func(context.Context, call) { time.Sleep(3 * time.Millisecond) }
		for i := range 300 {
			id := uint64(1 + i%7)
			switch i % 9 {
			case 0:
				e.loop.PauseObjects(only(id, id+1))
			case 1:
				e.loop.Pause()
			case 2:
				e.loop.Resume()
			case 3:
				e.target.deciding(func(c call) error {
					if c.id == id {
						return errors.New("no")
					}
					return nil
				})
			case 4, 5:
				// Another pause may be in force.
				_ = e.loop.PauseOnly(fmt.Sprint(id), fmt.Sprint(id+1))
			case 6:
				_ = e.loop.PauseOnly()
			}
			if i%11 == 0 {
				e.remove(id)
			} else {
				n++
				e.put(n, id)
			}
			e.pass(time.Duration(i%13) * time.Millisecond)
		}
		e.target.failing("")
		e.loop.Resume()
		e.pass(time.Minute)
		e.eachDone()
	})
}
