// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// waited is the result of a wait in its own goroutine; took is its duration.
type waited struct {
	unapplied inspect.Unapplied
	err       error
	took      time.Duration
}

// during starts a wait. The channel gets the result when the wait is over.
func during(wait func() (inspect.Unapplied, error)) <-chan waited {
	over, began := make(chan waited, 1), time.Now()
	go func() {
		unapplied, err := wait()
		over <- waited{unapplied, err, time.Since(began)}
	}()
	return over
}

// wait starts a wait for a revision.
func (e *env) wait(until statedb.Revision, m reconciler.Milestone) <-chan waited {
	return during(func() (inspect.Unapplied, error) { return e.loop.Wait(e.Context(), until, m) })
}

// waitFor starts a wait for objects.
func (e *env) waitFor(m reconciler.Milestone, ids ...uint64) <-chan waited {
	return during(func() (inspect.Unapplied, error) { return e.loop.WaitFor(e.Context(), m, objects(ids...)...) })
}

func objects(ids ...uint64) (objs []*object) {
	for _, id := range ids {
		objs = append(objs, &object{ID: id})
	}
	return objs
}

// goesOn requires that a wait is not over.
func (e *env) goesOn(over <-chan waited) {
	e.Helper()
	synctest.Wait()
	select {
	case w := <-over:
		e.Fatalf("the wait is over: %+v", w)
	default:
	}
}

// isOver requires that a wait is over, and that it took a time.
func (e *env) isOver(over <-chan waited, took time.Duration) waited {
	e.Helper()
	synctest.Wait()
	select {
	case w := <-over:
		require.InDelta(e, took, w.took, float64(maxGather), "the duration of the wait, want %s, is %s", took, w.took)
		return w
	default:
		e.Fatal("the wait goes on")
		return waited{}
	}
}

// maxGather bounds the time for which the loop lets retries wait for each other.
const maxGather = 6 * time.Millisecond

// nothingUnapplied requires that a wait succeeded and lists no unapplied objects.
func (e *env) nothingUnapplied(w waited) {
	e.Helper()
	require.NoError(e, w.err)
	require.Equal(e, inspect.Unapplied{}, w.unapplied)
	require.NoError(e, w.unapplied.Err())
}

// requireUnapplied requires that a wait lists exactly these unapplied objects, each with its text.
func (e *env) requireUnapplied(unapplied inspect.Unapplied, want ...string) {
	e.Helper()
	var texts []string
	for _, u := range unapplied.Keys {
		texts = append(texts, u.Error())
	}
	require.Equal(e, want, texts)
}

// outcomes makes the value of an object decide the outcome of its update; deletions of IDs above
// 100 fail.
func outcomes(release <-chan struct{}) func(c call) error {
	return func(c call) error {
		switch {
		case c.op == "delete" && c.id > 100:
			return errors.New("in use")
		case c.op != "update":
			return nil
		}
		switch c.value {
		case failsNow:
			return errors.New("no route")
		case failsForGood:
			return reconciler.TerminalError(errors.New("no such name"))
		case blocks:
			return reconciler.Blocked("device eth0 is missing", release)
		case requeues:
			return reconciler.Requeue(time.Hour)
		}
		return nil
	}
}

const (
	works = iota
	failsNow
	failsForGood
	blocks
	requeues
)

func TestWaitForAttemptsListsUnappliedObjects(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.deciding(outcomes(make(chan struct{})))
		e.put(works, 1, 101)
		synctest.Wait()
		e.put(failsNow, 2)
		e.put(failsForGood, 3)
		e.put(blocks, 4)
		e.put(requeues, 5)
		e.remove(101)
		e.write(func(wtxn statedb.WriteTxn) { _, _, _ = e.table.Insert(wtxn, &object{ID: 60}) })
		until := e.put(works, 6)
		e.put(failsNow, 7)
		w := e.isOver(e.wait(until, reconciler.Attempted), 0)
		require.NoError(e, w.err)
		e.requireUnapplied(w.unapplied,
			"0x0000000000000002: retry after 1 attempt(s): no route",
			"0x0000000000000003: terminal: no such name",
			"0x0000000000000004: blocked: device eth0 is missing",
			"deletion of 0x0000000000000065: retry after 1 attempt(s): in use",
		)
		require.Zero(e, w.unapplied.More)
		require.Equal(e, inspect.Unreconciled{
			Key: index.Uint64(101), Deleted: true, State: "retry", Attempts: 1, Err: errors.New("in use"),
		}, w.unapplied.Keys[3])
		require.ErrorIs(e, w.unapplied.Err(), w.unapplied.Keys[3].Err)
		require.Equal(e, 4, 1+strings.Count(w.unapplied.Err().Error(), "\n"))

		// A later wait gets the same list, with current figures.
		e.pass(150 * time.Millisecond)
		w = e.isOver(e.wait(until, reconciler.Attempted), 0)
		require.Len(e, w.unapplied.Keys, 4)
		require.Equal(e, 2, w.unapplied.Keys[0].Attempts)
	})
}

func TestWaitCutShortListsUnappliedObjects(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.deciding(outcomes(nil))
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		until := e.put(failsForGood, 1)
		over := during(func() (inspect.Unapplied, error) { return e.loop.Wait(ctx, until, reconciler.Applied) })
		e.pass(time.Second)
		e.put(failsForGood, 2)
		e.pass(time.Minute)
		w := e.isOver(over, time.Minute)
		require.ErrorIs(e, w.err, context.DeadlineExceeded)
		require.ErrorContains(e, w.err, `reconciler "objects": waiting for revision 1 to be applied, attempted up to 4: `)
		e.requireUnapplied(w.unapplied, "0x0000000000000001: terminal: no such name")

		// The deadline has passed, but the revision has been attempted.
		w = e.isOver(during(func() (inspect.Unapplied, error) { return e.loop.Wait(ctx, until, reconciler.Attempted) }), 0)
		require.NoError(e, w.err)
		e.requireUnapplied(w.unapplied, "0x0000000000000001: terminal: no such name")
	})
}

func TestWaitDoesNotHangWhenTheLoopIsStuck(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.lasting(func(call) time.Duration { return time.Hour })
		until := e.put(1, 1)
		synctest.Wait()
		for _, m := range []reconciler.Milestone{reconciler.Attempted, reconciler.Applied} {
			ctx, cancel := context.WithTimeout(e.Context(), time.Second)
			defer cancel()
			revision := during(func() (inspect.Unapplied, error) { return e.loop.Wait(ctx, until, m) })
			row := during(func() (inspect.Unapplied, error) { return e.loop.WaitFor(ctx, m, objects(1, 2)...) })
			e.pass(1100 * time.Millisecond)
			w := e.isOver(revision, 1100*time.Millisecond)
			require.ErrorIs(e, w.err, context.DeadlineExceeded)
			require.ErrorContains(e, w.err, "attempted up to 0: context deadline exceeded (the reconciler is busy: update of 1, running since ")
			busy := (*inspect.BusyError)(nil)
			require.ErrorAs(e, w.err, &busy)
			require.Empty(e, w.unapplied)

			w = e.isOver(row, 1100*time.Millisecond)
			require.ErrorIs(e, w.err, context.DeadlineExceeded)
			require.ErrorContains(e, w.err, "waiting for 0x0000000000000001 to be "+m.String())
			require.ErrorContains(e, w.err, "the reconciler is busy")
			e.requireUnapplied(w.unapplied, "0x0000000000000001: in flight", "deletion of 0x0000000000000002: unknown")
		}
	}, nil, reconciler.WithoutPruning())
}

func TestListOfUnappliedObjectsIsBounded(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(outcomes(nil))
		first := e.put(failsForGood, ids(1, 1000)...)
		until := e.put(failsForGood, ids(1001, 1500)...)
		newer := e.put(failsForGood, ids(1501, 1700)...)
		e.pass(time.Second)
		w := e.isOver(e.wait(until, reconciler.Attempted), 0)
		require.Len(e, w.unapplied.Keys, 100)
		require.Equal(e, index.Key(index.Uint64(1)), w.unapplied.Keys[0].Key)
		require.Equal(e, index.Key(index.Uint64(100)), w.unapplied.Keys[99].Key)
		require.Equal(e, 1400, w.unapplied.More, "those of later revisions do not count")
		text := w.unapplied.Err().Error()
		require.Equal(e, 11, 1+strings.Count(text, "\n"))
		require.Contains(e, text, "1490 further keys are not reconciled")

		w = e.isOver(e.wait(newer, reconciler.Attempted), 0)
		require.Equal(e, 1600, w.unapplied.More)
		w = e.isOver(e.wait(first, reconciler.Attempted), 0)
		require.Equal(e, 900, w.unapplied.More)
	}, nil)
}

func TestWaitMayBeginBeforeTheReconcilerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		loop, err := reconciler.New(e.config())
		require.NoError(e, err)
		e.loop = loop
		until := e.put(1, 1)

		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err = loop.Wait(ctx, until, reconciler.Applied)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.ErrorContains(e, err, "the reconciler has not been started")
		require.Equal(e, time.Second, time.Since(began), "no loop can answer")
		unapplied, err := loop.WaitFor(ctx, reconciler.Attempted, objects(1)...)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		e.requireUnapplied(unapplied, "0x0000000000000001: unknown")

		revision, row := e.wait(until, reconciler.Attempted), e.waitFor(reconciler.Attempted, 1)
		gone := e.waitFor(reconciler.Applied, 2)
		e.goesOn(revision)
		e.goesOn(row)
		e.goesOn(gone)
		running, stop := context.WithCancel(e.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(running) }()
		e.nothingUnapplied(e.isOver(revision, 0))
		e.nothingUnapplied(e.isOver(row, 0))
		e.nothingUnapplied(e.isOver(gone, 0))
		stop()
		require.NoError(e, <-ended)
	})
}

func TestWaitEndsWhenTheReconcilerStops(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.deciding(outcomes(nil))
		until := e.put(failsNow, 1)
		done := e.put(works, 2)
		synctest.Wait()
		waits := []<-chan waited{
			e.wait(until, reconciler.Applied), e.wait(done+100, reconciler.Attempted),
			e.waitFor(reconciler.Applied, 1, 2),
		}
		for _, over := range waits {
			e.goesOn(over)
		}
		e.stop()
		for _, over := range waits {
			require.ErrorIs(e, e.isOver(over, 0).err, inspect.ErrStopped)
		}

		// Waits that begin after the stop get what is known.
		for _, m := range []reconciler.Milestone{reconciler.Attempted, reconciler.Applied} {
			require.ErrorIs(e, e.isOver(e.wait(until, m), 0).err, inspect.ErrStopped)
			e.nothingUnapplied(e.isOver(e.wait(until-1, m), 0))
			e.nothingUnapplied(e.isOver(e.waitFor(m, 2), 0))
			require.ErrorIs(e, e.isOver(e.waitFor(m, 3), 0).err, inspect.ErrStopped, "nothing is known of a deletion")
		}
		w := e.isOver(e.waitFor(reconciler.Attempted, 1), 0)
		require.NoError(e, w.err, "the status shows the attempt")
		e.requireUnapplied(w.unapplied, "0x0000000000000001: unknown: no route")
	})
}

func TestInvalidMilestoneIsAnError(t *testing.T) {
	inBubble(t, func(e *env) {
		_, err := e.loop.Wait(e.Context(), 1, 7)
		require.EqualError(e, err, "waiting for milestone 7, must be Attempted or Applied")
		_, err = e.loop.WaitFor(e.Context(), 7)
		require.EqualError(e, err, "waiting for milestone 7, must be Attempted or Applied")
	}, nil)
}

// bothLedgers runs a test with the status in the rows and beside the table.
func bothLedgers(t *testing.T, test func(e *env), opts ...reconciler.Option) {
	for name, change := range map[string]configure{"in rows": nil, "beside": beside} {
		t.Run(name, func(t *testing.T) { inBubble(t, test, change, opts...) })
	}
}

// requireNoneOver requires that no wait is over.
func (e *env) requireNoneOver(waits []<-chan waited) {
	e.Helper()
	synctest.Wait()
	for i, over := range waits {
		select {
		case w := <-over:
			e.Errorf("wait %d is over after %s: %v", i, w.took, w.err)
		default:
		}
	}
}

// WaitKey does not take a loop that gives no answer in time for one that does not know the object.
func TestWaitKeyFindsAFailingDeletionWhileTheLoopIsBusy(t *testing.T) {
	bothLedgers(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.target.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("in use")
			}
			return nil
		})
		e.remove(1)
		e.pass(50 * time.Millisecond)
		e.target.takes(time.Second)
		// Which of these ends too early depends on when it asks the loop.
		var waits []<-chan waited
		for i := range 40 {
			waits = append(waits, during(func() (inspect.Unapplied, error) {
				return e.loop.WaitKey(e.Context(), "1", reconciler.Applied)
			}))
			e.put(i, 2, 3)
			e.pass(510 * time.Millisecond)
		}
		require.Contains(e, e.target.holds(), uint64(1))
		e.requireNoneOver(waits)
		e.target.deciding(nil)
		e.pass(2 * time.Minute)
	}, reconciler.WithoutPruning())
}

func TestWaitForObjectsToBeAppliedOutlastsFailures(t *testing.T) {
	everyWay(t, func(e *env) {
		e.put(works, 101)
		synctest.Wait()
		release := make(chan struct{})
		e.target.deciding(outcomes(release))
		e.remove(101)
		e.put(failsNow, 1)
		e.put(blocks, 2)
		all, failed := e.waitFor(reconciler.Applied, 101, 1, 2), e.waitFor(reconciler.Applied, 101)
		e.pass(250 * time.Millisecond)
		e.goesOn(failed)
		e.target.failing("")
		e.pass(100 * time.Millisecond)
		e.nothingUnapplied(e.isOver(failed, 300*time.Millisecond))
		e.goesOn(all)
		close(release)
		e.nothingUnapplied(e.isOver(all, 350*time.Millisecond))
		e.eachDone()
	})
}

func TestWaitForARowWithoutAStatusIsAnError(t *testing.T) {
	singly(t, func(e *env) {
		e.write(func(wtxn statedb.WriteTxn) { _, _, _ = e.table.Insert(wtxn, &object{ID: 60}) })
		until := e.put(works, 1)
		synctest.Wait() // the loop must know that no deletion of object 2 is on its way
		w := e.isOver(e.waitFor(reconciler.Applied, 1, 60, 2), 0)
		require.ErrorIs(e, w.err, reconciler.ErrNoStatus)
		require.ErrorContains(e, w.err, "waiting for 0x000000000000003c to be applied, 1 of 3 objects are")
		e.requireUnapplied(w.unapplied, "0x000000000000003c has no status: the row has no status and is never reconciled")

		e.nothingUnapplied(e.isOver(e.wait(until, reconciler.Applied), 0))
	})
}

// A new row is applied long before the backlog is, and so is a deletion.
func TestWaitForObjectsDoesNotWaitForABacklog(t *testing.T) {
	for _, workers := range []int{1, 4} {
		inBubble(t, func(e *env) {
			took := 2 * time.Millisecond
			e.put(1, 8000, 8001)
			synctest.Wait()
			e.target.lasting(func(call) time.Duration { return took })
			load := e.put(1, ids(1, 5000)...)
			revision := e.wait(load, reconciler.Applied)
			e.pass(100 * time.Millisecond)
			e.target.take()
			start := time.Now()
			e.put(1, 9000)
			row := e.waitFor(reconciler.Applied, 9000)
			e.remove(8000)
			gone := e.waitFor(reconciler.Applied, 8000)
			e.pass(20 * time.Second)
			for _, c := range e.target.take() {
				over := row
				switch c.id {
				case 8000:
					over = gone
				case 9000:
				default:
					continue
				}
				w := <-over
				e.nothingUnapplied(w)
				require.InDelta(e, c.at.Add(took).Sub(start), w.took, float64(20*time.Millisecond), c.String())
				require.Less(e, w.took, time.Second)
			}
			require.Greater(e, (<-revision).took, 2*time.Second)
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithoutPruning())
	}
}

// The loop of a single worker answers no question while an operation runs. The status of a row is
// read without the loop.
func TestWaitForAnAppliedRowDoesNotAskTheLoop(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		synctest.Wait()
		e.target.lasting(func(call) time.Duration { return time.Hour })
		e.put(1, 2)
		synctest.Wait()
		e.nothingUnapplied(e.isOver(e.waitFor(reconciler.Applied, 1), 0))
		e.nothingUnapplied(e.isOver(e.waitFor(reconciler.Attempted, 1), 0))
	}, nil, reconciler.WithoutPruning())
}

// racingTable calls race once, after a caller has read the revision of the table, and raceRow after it has
// read a row with a watch channel.
type racingTable struct {
	statedb.RWTable[*object]
	race, raceRow atomic.Pointer[func()]
}

func (x *racingTable) Revision(txn statedb.ReadTxn) statedb.Revision {
	revision := x.RWTable.Revision(txn)
	if race := x.race.Swap(nil); race != nil {
		(*race)()
	}
	return revision
}

func (x *racingTable) GetWatch(txn statedb.ReadTxn, q statedb.Query[*object]) (*object, statedb.Revision, <-chan struct{}, bool) {
	row, revision, watch, found := x.RWTable.GetWatch(txn, q)
	if race := x.raceRow.Swap(nil); race != nil {
		(*race)()
	}
	return row, revision, watch, found
}

// A wait for a revision ends when the revision is reached. It does not wait for later writes, even
// if main takes a later snapshot while the wait begins.
func TestWaitForARevisionDoesNotWaitForLaterOnes(t *testing.T) {
	table := &racingTable{}
	inBubble(t, func(e *env) {
		stuck := e.target.stick(2)
		defer stuck.free(2)
		until := e.put(1, 1)
		e.pass(time.Second)
		e.put(1, 2)
		e.pass(time.Second)
		wait := func(f func(ctx context.Context) error) {
			ctx, cancel := context.WithTimeout(e.Context(), time.Second)
			defer cancel()
			row := e.get(3)
			race := func() {
				e.put(1, 3)
				// The loop reads the row, unless it waits for this goroutine.
				for range 10_000 {
					if now := e.get(3); now != row && now.Status.Kind == reconciler.StatusKindDone {
						return
					}
					runtime.Gosched()
				}
			}
			table.race.Store(&race)
			require.NoError(e, f(ctx))
		}
		wait(func(ctx context.Context) error {
			_, _, err := e.loop.WaitUntilReconciled(ctx, until)
			return err
		})
		wait(func(ctx context.Context) error {
			_, err := e.loop.Wait(ctx, until, reconciler.Attempted)
			return err
		})
	}, func(e *env, cfg *reconciler.Config[*object]) {
		table.RWTable = e.table
		cfg.Table = table
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
}
