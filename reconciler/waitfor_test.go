// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

func TestWaitForObjectsLastsUntilEachReachesTheMilestone(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.lasting(func(call) time.Duration { return time.Second })
		e.put(1, 1)
		both := []<-chan waited{e.waitFor(reconciler.Attempted, 1), e.waitFor(reconciler.Applied, 1)}
		e.pass(999 * time.Millisecond)
		for _, over := range both {
			e.goesOn(over)
		}
		e.pass(time.Millisecond)
		for _, over := range both {
			e.nothingUnapplied(e.isOver(over, time.Second))
		}

		e.remove(1)
		gone := []<-chan waited{e.waitFor(reconciler.Attempted, 1), e.waitFor(reconciler.Applied, 1)}
		e.pass(999 * time.Millisecond)
		for _, over := range gone {
			e.goesOn(over)
		}
		e.pass(time.Millisecond)
		for _, over := range gone {
			e.nothingUnapplied(e.isOver(over, time.Second))
		}
		require.Empty(e, e.target.holds())

		e.nothingUnapplied(e.isOver(e.waitFor(reconciler.Applied, 1), 0))
		e.nothingUnapplied(e.isOver(e.waitFor(reconciler.Applied, 77), 0))
		e.nothingUnapplied(e.isOver(e.waitFor(reconciler.Applied), 0))
	})
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

func TestRowWaitContinuesWithItsDeletion(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.lasting(func(c call) time.Duration { return time.Second })
		e.target.deciding(outcomes(nil))
		e.put(failsForGood, 1)
		applied := e.waitFor(reconciler.Applied, 1)
		e.pass(5 * time.Second)
		e.goesOn(applied)
		e.remove(1)
		e.pass(999 * time.Millisecond)
		e.goesOn(applied)
		e.pass(time.Millisecond)
		e.nothingUnapplied(e.isOver(applied, 6*time.Second))
	})
}

// The attempt of a version before the awaited one does not count.
func TestAttemptOnAnEarlierVersionDoesNotCount(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.deciding(outcomes(nil))
		e.put(failsNow, 1, 2)
		synctest.Wait()
		e.loop.Pause()
		synctest.Wait()
		e.put(works, 1)
		e.remove(2)
		waits := []<-chan waited{e.waitFor(reconciler.Attempted, 1), e.waitFor(reconciler.Attempted, 2)}
		e.pass(time.Hour)
		for _, over := range waits {
			e.goesOn(over)
		}
		brief, cancel := context.WithTimeout(e.Context(), 0)
		defer cancel()
		unapplied, err := e.loop.WaitFor(brief, reconciler.Attempted, objects(1, 2, 3)...)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		e.requireUnapplied(unapplied,
			"0x0000000000000001: paused: no route",
			"deletion of 0x0000000000000002: paused",
			"deletion of 0x0000000000000003: paused",
		)
		e.target.take()
		e.loop.Resume()
		for _, over := range waits {
			e.nothingUnapplied(e.isOver(over, time.Hour))
		}
		require.Len(e, e.target.take(), 2)
	})
}

func TestWaitForAChangingRowIsForTheVersionOfTheCall(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.lasting(func(c call) time.Duration { return time.Second })
		e.put(7, 1)
		both := []<-chan waited{e.waitFor(reconciler.Attempted, 1), e.waitFor(reconciler.Applied, 1)}
		e.pass(500 * time.Millisecond)
		e.put(8, 1)
		e.pass(time.Second)
		for _, over := range both {
			w := <-over
			require.NoError(e, w.err)
			require.Less(e, w.took, 1900*time.Millisecond)
		}
		require.Equal(e, 7, e.target.holds()[1])
		later := e.waitFor(reconciler.Applied, 1)
		e.pass(400 * time.Millisecond)
		e.goesOn(later)
		e.pass(2 * time.Second)
		e.nothingUnapplied(<-later)
		require.Equal(e, 8, e.target.holds()[1])
	})
}

// Paused objects are not attempted until they are resumed. A wait for attempts ends and lists them, also if the pause
// comes during the wait; a wait for applied objects goes on.
func TestPausedObjectsCountAsAttempted(t *testing.T) {
	for _, during := range []bool{false, true} {
		t.Run(fmt.Sprintf("during the wait %t", during), func(t *testing.T) {
			everyWay(t, func(e *env) {
				e.put(works, 2)
				synctest.Wait()
				pause := func() { e.loop.PauseObjects(func(o *object) bool { return o.ID <= 2 }) }
				if during {
					// The whole loop is paused, so it reads no changes.
					e.loop.Pause()
				} else {
					pause()
				}
				synctest.Wait()
				e.put(works, 1)
				until := e.remove(2)
				waits := []<-chan waited{e.waitFor(reconciler.Attempted, 1, 2), e.wait(until, reconciler.Attempted)}
				applied := e.waitFor(reconciler.Applied, 1, 2)
				if during {
					e.goesOn(waits[0])
					e.goesOn(waits[1])
					pause()
				}
				for _, over := range waits {
					w := e.isOver(over, 0)
					require.NoError(e, w.err)
					e.requireUnapplied(w.unapplied, "0x0000000000000001: paused", "deletion of 0x0000000000000002: paused")
				}
				e.goesOn(applied)
				e.loop.Resume()
				synctest.Wait()
				e.nothingUnapplied(<-applied)
			})
		})
	}
}

// A change of an object that has just failed is not attempted before its minimum backoff has
// passed. A wait for the object includes that time; a wait for a revision does not.
func TestWaitForAnObjectIncludesItsHeldChange(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.deciding(outcomes(nil))
		e.put(failsNow, 1)
		synctest.Wait()
		until := e.put(works, 1)
		row := e.waitFor(reconciler.Attempted, 1)
		w := e.isOver(e.wait(until, reconciler.Attempted), 0)
		require.NoError(e, w.err)
		e.requireUnapplied(w.unapplied, "0x0000000000000001: held: no route")
		require.Equal(e, 1, w.unapplied.Keys[0].Attempts)
		e.goesOn(row)
		e.pass(100 * time.Millisecond)
		e.nothingUnapplied(e.isOver(row, 100*time.Millisecond))
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

// An object that was inserted and deleted at once was never applied, so no earlier operation shows
// that its key is not in the target.
func TestDeletionOfAShortLivedObjectIsWaitedFor(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("no")
			}
			return nil
		})
		e.comeAndGo(1)
		w := e.waitFor(reconciler.Applied, 1)
		e.goesOn(w)
		e.target.failing("")
		e.pass(time.Second)
		e.nothingUnapplied(e.isOver(w, 100*time.Millisecond))
	}, nil)
}

// Wait and WaitFor agree: what was written at the call, or something later, was applied.
func TestWaitForEndsThoughTheRowIsRewrittenFaster(t *testing.T) {
	for _, ledger := range []string{"rows", "beside"} {
		for _, workers := range []int{1, 4} {
			for _, m := range []reconciler.Milestone{reconciler.Attempted, reconciler.Applied} {
				t.Run(fmt.Sprintf("%s, %d workers, %s", ledger, workers, m), func(t *testing.T) {
					inBubble(t, func(e *env) {
						e.hook(func(context.Context, call) { time.Sleep(50 * time.Millisecond) })
						done := make(chan struct{})
						writing := make(chan struct{})
						go func() {
							defer close(writing)
							for i := 1; ; i++ {
								select {
								case <-done:
									return
								case <-time.After(7 * time.Millisecond):
									if i%5 == 0 {
										e.remove(1)
									}
									e.put(i, 1)
								}
							}
						}()
						e.put(0, 1)
						for range 5 {
							ctx, cancel := context.WithTimeout(e.Context(), time.Second)
							_, err := e.loop.WaitFor(ctx, m, &object{ID: 1})
							cancel()
							require.NoError(e, err)
						}
						close(done)
						<-writing
						_, err := e.loop.WaitFor(e.Context(), reconciler.Applied, &object{ID: 1})
						require.NoError(e, err)
						require.Equal(e, reconciler.StatusKindDone, e.told(1).Kind)
					}, func(e *env, cfg *reconciler.Config[*object]) {
						if ledger == "beside" {
							beside(e, cfg)
						}
						cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
					})
				})
			}
		}
	}
}

// The operation that ran at the time of Reapply does not end a wait that began after it, also if the row is
// written again meanwhile.
func TestWaitForAfterReapplyLastsUntilALaterOperation(t *testing.T) {
	for name, ledger := range map[string]configure{"in the rows": nil, "beside": beside} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.takes(time.Second)
				e.put(1, 1)
				e.pass(200 * time.Millisecond)
				_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
				require.NoError(e, err)
				over := e.waitFor(reconciler.Applied, 1)
				e.pass(200 * time.Millisecond)
				e.put(2, 1)
				e.pass(time.Second)
				e.goesOn(over)
				e.pass(time.Second)
				e.nothingUnapplied(e.isOver(over, 1800*time.Millisecond))
			}, ledger, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
		})
	}
}
