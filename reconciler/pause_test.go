// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// waiting creates an object for each outcome, and two that are done. Failed and requeued objects
// run again within a minute, the blocked one when the channel is closed.
func (e *env) waiting() (door chan struct{}) {
	door = make(chan struct{})
	outcomes := map[uint64]error{
		1: nil, 2: errPlain, 3: reconciler.RetryAfter(errPlain, 30*time.Second),
		4: reconciler.TerminalError(errPlain), 5: reconciler.Blocked("door", door), 6: reconciler.Requeue(30 * time.Second),
	}
	e.target.deciding(func(c call) error { return outcomes[c.id] })
	e.put(1, ids(1, 7)...)
	e.pass(time.Second)
	e.target.take()
	return door
}

// A pause of the reconciler holds back all work, costs no passes, and the work runs at the resume.
func TestPausedReconcilerStartsNothing(t *testing.T) {
	var p passes
	everyWayWith(t, p.count, func(e *env) {
		door := e.waiting()
		e.loop.Pause()
		synctest.Wait()
		level, message, _ := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Contains(e, message, "paused")

		counted := p.during(func() {
			e.pass(20 * time.Second)
			e.put(2, 1, 8, 9)
			e.remove(7, 9)
			e.loop.Prune()
			close(door)
			e.pass(24 * time.Hour)
		})
		require.LessOrEqual(e, counted, int64(4), "passes")
		require.Empty(e, e.target.calls())
		require.Equal(e, reconciler.StatusKindPending, e.kind(8))

		e.target.failing("")
		e.loop.Resume()
		synctest.Wait()
		_, message, _ = e.health.Now()
		require.NotContains(e, message, "paused")
		require.Len(e, e.target.take(), 9, "1 to 3, 5 to 9 once, and the prune")
		e.put(2, 4)
		e.pass(time.Second)
		e.eachDone()
	}, reconciler.WithPruning(24*time.Hour+time.Minute), reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
}

// After the loop has observed the pause nothing starts, even if fast workers have jobs queued. What runs finishes.
func TestPauseStopsOperationsQueuedForWorkers(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.takes(10 * time.Microsecond)
		e.put(1, ids(1, 2000)...)
		e.pass(time.Second)
		e.eachDone()
		e.target.take()
		e.target.takes(time.Second)
		e.put(2, ids(1, 2000)...)
		synctest.Wait()
		e.loop.Pause()
		e.pass(time.Minute)
		require.Len(e, e.target.take(), 4)
		e.target.takes(0)
		e.loop.Resume()
		e.pass(time.Minute)
		e.eachDone()
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }), reconciler.WithoutPruning())
}

func TestPauseBeforeTheStartHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		loop, err := reconciler.New(e.config(reconciler.WithPruning(time.Hour)))
		require.NoError(e, err)
		loop.Pause()
		stop := reconcilertest.Go(t, loop.Run)
		e.put(1, 1)
		e.pass(5 * time.Hour)
		require.Empty(e, e.target.calls())
		loop.Resume()
		synctest.Wait()
		require.Equal(e, []string{"update(1)", "prune(1)"}, e.target.calls())
		stop()
	})
}

// The latest call counts, however fast the calls follow each other.
func TestLastCallOfPauseCounts(t *testing.T) {
	everyWay(t, func(e *env) {
		all := func(*object) bool { return true }
		for name, calls := range map[string][]func(){
			"paused":             {e.loop.Resume, e.loop.Pause},
			"again":              {e.loop.Pause, e.loop.Resume, e.loop.Pause, e.loop.Pause},
			"after no predicate": {func() { e.loop.PauseObjects(nil) }, e.loop.Pause},
			"by a predicate":     {e.loop.Pause, func() { e.loop.PauseObjects(all) }},
		} {
			for _, f := range calls {
				f()
			}
			e.put(1, 1)
			e.pass(time.Minute)
			require.Empty(e, e.target.calls(), name)
			e.loop.Pause()
			e.loop.PauseObjects(nil)
			e.pass(time.Minute)
			require.Len(e, e.target.take(), 1, name)
		}
	})
}

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

// An operation that runs when its object is paused finishes, and its outcome is written. Its retry
// waits.
func TestObjectPausedInFlightIsFinished(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.takes(time.Second)
		e.target.failing("no")
		e.put(1, 1)
		e.pass(500 * time.Millisecond)
		e.loop.PauseObjects(only(1))
		e.pass(time.Hour)
		require.Len(e, e.target.take(), 1)
		e.status(1, reconciler.StatusKindError, "no")
		e.put(2, 1)
		e.pass(time.Hour)
		require.Empty(e, e.target.take())
		e.target.failing("")
		e.loop.Resume()
		e.pass(time.Minute)
		e.eachDone()
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

// The pause of an object that is Done is shown in Snapshot, by key, and in Explain.
func TestPauseOfADoneObjectIsShown(t *testing.T) {
	everyWay(t, func(e *env) {
		const note = "the object is paused: what changes about it waits until it is resumed"
		notes := func(key string) []string { return e.loop.Explain(e.Context(), key).Notes }
		e.put(1, ids(1, 200)...)
		e.pass(time.Second)
		require.NoError(e, e.loop.PauseOnly("7", "3", `"3"`))
		x := e.loop.Snapshot(e.Context())
		require.Equal(e, []string{"3", "7"}, x.Paused)
		require.Contains(e, x.Summary(), "2 object(s) paused")
		require.Contains(e, notes("3"), note)
		require.Equal(e, inspect.StateDone, e.loop.Explain(e.Context(), "3").State)
		require.NotContains(e, notes("4"), note)

		e.loop.PauseObjects(only(4))
		require.NotContains(e, notes("3"), note, "the later pause replaces the earlier")
		require.Contains(e, notes("4"), note)
		x = e.loop.Snapshot(e.Context())
		require.True(e, x.PausedByPredicate)
		require.Empty(e, x.Paused)
		require.Contains(e, x.Summary(), "objects paused by PauseObjects")
		e.loop.Resume()
		require.NotContains(e, e.loop.Snapshot(e.Context()).Summary(), "paused")

		require.NoError(e, e.loop.PauseOnly(make([]string, inspect.MaxKeys)...))
		require.EqualError(e, e.loop.PauseOnly(make([]string, inspect.MaxKeys+1)...),
			"1001 keys are too many for one call: at most 1000")
	})
}

// A registry lists the running reconcilers only.
func TestRegistryListsOnlyRunningReconcilers(t *testing.T) {
	var registry inspect.Registry
	inBubble(t, func(e *env) {
		require.Equal(e, []inspect.Controller{e.loop}, registry.All())
		loop, err := reconciler.New(e.config(reconciler.WithRegistry(&registry)))
		require.NoError(e, err)
		require.Len(e, registry.All(), 1)
		registry.Add(loop)
		require.Len(e, registry.All(), 2)
		registry.Remove(loop)
		registry.Remove(loop)
		require.Len(e, registry.All(), 1)
	}, nil, reconciler.WithRegistry(&registry))
	require.Empty(t, registry.All())
}

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
	{"behind its own stuck operation", 1, true, func(e *env, done <-chan struct{}) {
		e.hanging(done, 1)
		e.put(2, 1)
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
	{"unread, behind an open breaker", 3, false, func(e *env, done <-chan struct{}) {
		require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.Timeout = time.Hour }))
		e.target.failing("no")
		e.put(1, 1, 2)
		synctest.Wait()
		e.target.failing("")
		e.hook(func(context.Context, call) { <-done })
		e.put(1, 5)
		e.pass(time.Second)
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
					breaksAfter(2),
					reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
			})
		}
	}
}

// A pause, its end, and a retry of all concern each key that waits. The loop goes on with other work meanwhile.
func TestFreshChangeDoesNotWaitForManyPausedKeys(t *testing.T) {
	const waiting = 20_000
	bothLedgers(t, func(e *env) {
		e.target.failing("down")
		e.put(1, ids(1, waiting)...)
		e.pass(time.Second)
		e.target.failing("")
		// asked is the number of calls, until when the fresh change was applied.
		var asked, until atomic.Int64
		e.hook(func(_ context.Context, c call) {
			if c.id > waiting {
				until.Store(asked.Load())
			}
		})
		// The loop may be ahead when the change is written.
		fresh := func(id uint64, pause func()) int64 {
			asked.Store(0)
			pause()
			e.put(1, id)
			written := asked.Load()
			e.pass(time.Second)
			return until.Load() - written
		}
		require.LessOrEqual(e, fresh(waiting+1, func() {
			e.loop.PauseObjects(func(o *object) bool { asked.Add(1); return o.ID <= waiting })
		}), int64(4*1024))
		require.LessOrEqual(e, fresh(waiting+2, func() {
			e.loop.PauseObjects(func(o *object) bool { asked.Add(1); return o.ID <= waiting/2 })
		}), int64(4*1024))
		n, err := e.loop.Retry(e.Context())
		require.NoError(e, err)
		require.Equal(e, waiting, n)
		e.pass(time.Minute)
		require.Len(e, e.target.holds(), waiting/2+2)
		e.loop.Resume()
		e.pass(time.Minute)
		require.Len(e, e.target.holds(), waiting+2)
	}, reconciler.WithRetry(24*time.Hour, 24*time.Hour), reconciler.WithoutPruning())
}

// interrupted lets others run after it has listed the keys that are paused.
type interrupted struct{ inspect.LoopController }

func (i interrupted) Snapshot(ctx context.Context) inspect.Snapshot {
	defer func() {
		for range 100 {
			runtime.Gosched()
		}
	}()
	return i.LoopController.Snapshot(ctx)
}

func TestPausesOfSeveralOperatorsAddUp(t *testing.T) {
	inBubble(t, func(e *env) {
		const operators = 20
		e.put(1, ids(1, 2*operators)...)
		e.pass(0)
		var all, rest []string
		var changes sync.WaitGroup
		for i := range operators {
			one, other := strconv.Itoa(i+1), strconv.Itoa(operators+i+1)
			all, rest = append(all, one, other), append(rest, one)
			changes.Go(func() {
				require.NoError(e, operator.Pause(e.Context(), interrupted{e.loop}, one))
				require.NoError(e, operator.Pause(e.Context(), interrupted{e.loop}, other))
			})
		}
		changes.Wait()
		require.ElementsMatch(e, all, e.loop.Snapshot(e.Context()).Paused)
		for i := range operators {
			changes.Go(func() {
				require.NoError(e, operator.Resume(e.Context(), interrupted{e.loop}, strconv.Itoa(operators+i+1)))
			})
		}
		changes.Wait()
		require.ElementsMatch(e, rest, e.loop.Snapshot(e.Context()).Paused)
	}, nil)
}

func TestRefusedPauseNamesTheCause(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		e.pass(0)
		err := operator.Pause(e.Context(), e.loop, "1", "no\n"+strings.Repeat("x", 1000))
		require.ErrorIs(e, err, inspect.ErrNotFound)
		require.ErrorContains(e, err, ": not in the table, and nothing is left to be done for it")
		require.NotContains(e, err.Error(), "\n")
		require.Less(e, len(err.Error()), 400)
		require.Empty(e, e.loop.Snapshot(e.Context()).Paused, "one mistyped key pauses nothing")

		e.loop.Pause()
		e.pass(0)
		e.remove(2)
		err = operator.Pause(e.Context(), e.loop, "2")
		require.ErrorIs(e, err, inspect.ErrNotFound)
		require.ErrorContains(e, err, "may be unread: if it was deleted since, that may be still to come")
	}, nil)
}
