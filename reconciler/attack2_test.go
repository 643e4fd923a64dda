// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

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

// WaitKey: "The error is inspect.ErrNotFound if neither the table nor the reconciler has the object; if there
// was one, it is gone from the target." The deletion of object 1 fails, and the loop is in operations that take
// longer than it has for answers.
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

// PauseObjects: "For waits an object counts as Attempted from when its pause begins, whatever it waits for; but
// an operation that runs has to end first, and Loop.Wait and Loop.WaitAll wait for a change that is not read
// because no worker is free." So WaitFor does not wait for a worker.
func TestPausedDeletionCountsAsAttemptedWhileNoWorkerIsFree(t *testing.T) {
	bothLedgers(t, func(e *env) {
		e.target.takes(5 * time.Millisecond)
		e.put(1, 9)
		e.pass(time.Second)
		stuck := e.target.stick(1, 2)
		e.put(1, 1, 2)
		e.pass(time.Second)
		e.loop.PauseObjects(func(o *object) bool { return o.ID == 9 })
		e.put(2, 9)
		e.pass(time.Second)
		e.isOver(e.waitFor(reconciler.Attempted, 9), 0)
		e.remove(9)
		over := e.waitFor(reconciler.Attempted, 9)
		e.pass(30 * time.Second)
		assert.Len(e, over, 1, "the wait for the paused deletion goes on")
		stuck.free(1)
		stuck.free(2)
		e.loop.Resume()
		e.pass(time.Minute)
	}, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
}

// Attempted: "A change of a paused object counts as attempted, because it will not be attempted." The only
// exception of Wait is "a change that is not read because no worker is free". A limiter without a permit is none.
func TestPausedChangeCountsAsAttemptedWithoutAPermit(t *testing.T) {
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			bothLedgers(t, func(e *env) {
				e.put(1, 1, 9)
				e.pass(time.Second)
				e.loop.PauseObjects(func(o *object) bool { return o.ID >= 8 })
				e.pass(time.Second)
				waits := map[string]<-chan waited{
					"Wait":               e.wait(e.put(2, 8), reconciler.Attempted),
					"WaitFor a row":      e.waitFor(reconciler.Attempted, 8),
					"Wait for deletion":  e.wait(e.remove(9), reconciler.Attempted),
					"WaitFor a deletion": e.waitFor(reconciler.Attempted, 9),
				}
				e.pass(time.Minute)
				for name, over := range waits {
					assert.Len(e, over, 1, "%s goes on", name)
				}
				e.set(func(s *reconciler.Settings) { s.OperationLimiter = nil })
				e.loop.Resume()
				e.pass(time.Minute)
			}, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) {
				s.Concurrency, s.OperationLimiter = workers, rate.NewLimiter(rate.Every(time.Hour), 2)
			}))
		})
	}
}

// DESIGN, section 3: "a row of that snapshot whose status is older than the wait counts as unreconciled from the
// revision of the wait on. So Applied is exact, too." Wait: "blocks until every change of the table up to a
// revision ... has reached the milestone". Object 3 is made before the wait, and inserted after it began: in a
// transaction that the program held meanwhile. It fails, and is a later change.
func TestWaitForAppliedDoesNotWaitForALaterCommitOfAnOlderStatus(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			if c.id == 3 {
				return errors.New("no")
			}
			return nil
		})
		e.target.takes(time.Second)
		e.put(1, 1)
		e.pass(10 * time.Millisecond)
		until := e.put(1, 2)
		made := &object{ID: 3, Value: 1, Status: reconciler.StatusPending()}
		over := e.wait(until, reconciler.Applied)
		e.pass(10 * time.Millisecond)
		e.write(func(wtxn statedb.WriteTxn) {
			_, _, err := e.table.Insert(wtxn, made)
			require.NoError(e, err)
		})
		e.pass(time.Minute)
		assert.Len(e, over, 1, "the wait goes on")
		e.target.deciding(nil)
		e.target.takes(0)
		e.pass(2 * time.Minute)
	}, nil, reconciler.WithoutPruning())
}

// Reapply: "The error is that of ctx, or inspect.ErrStopped".
func TestReapplyAfterTheStopIsAnError(t *testing.T) {
	bothLedgers(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.stop()
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.ErrorIs(e, err, inspect.ErrStopped)
	}, reconciler.WithoutPruning())
}

// Attempted: "A change of a paused object counts as attempted, because it will not be attempted." After Resume it
// will be, so a wait that begins then goes on until it is.
func TestResumedChangeDoesNotCountAsAttempted(t *testing.T) {
	bothLedgers(t, func(e *env) {
		e.loop.PauseObjects(func(o *object) bool { return o.ID == 1 })
		until := e.put(1, 1)
		e.pass(time.Second)
		e.target.takes(time.Second)
		e.loop.Resume()
		e.pass(10 * time.Millisecond)
		revision, object := e.wait(until, reconciler.Attempted), e.waitFor(reconciler.Attempted, 1)
		all := during(func() (inspect.Unapplied, error) { return e.loop.WaitAll(e.Context(), reconciler.Attempted) })
		e.pass(100 * time.Millisecond)
		assert.Empty(e, object, "WaitFor is over")
		assert.Empty(e, revision, "Wait is over")
		assert.Empty(e, all, "WaitAll is over")
		e.pass(time.Minute)
	}, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
}
