// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/trigger"
)

// asking asks for all objects to be applied again, with a context that ends after a second.
var asking = map[string]func(e *env, n uint64){
	"reapply": func(e *env, n uint64) {
		var objs []*object
		for _, id := range ids(1, n) {
			objs = append(objs, &object{ID: id})
		}
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		_, _ = e.loop.Reapply(ctx, objs...)
	},
	"refresh": func(e *env, n uint64) {
		var keys []string
		for _, id := range ids(1, n) {
			keys = append(keys, strconv.FormatUint(id, 10))
		}
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		_, _ = e.loop.Refresh(ctx, keys...)
	},
	"reconfigure": func(e *env, _ uint64) {
		// A refresh of all objects is waiting for the loop when the settings of refreshes are replaced.
		if e.loop.Settings().RefreshLimiter == nil {
			_, err := e.loop.Refresh(e.Context())
			require.NoError(e, err)
		}
		e.set(func(s *reconciler.Settings) { s.RefreshLimiter = rate.NewLimiter(rate.Inf, 1) })
	},
}

func TestObjectIsAppliedOnceForAllCallsDuringAPause(t *testing.T) {
	const n = 500
	for name, ask := range asking {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.writeRows(1, ids(1, n)...)
				e.pass(0)
				e.target.take()
				e.loop.Pause()
				for range 20 {
					ask(e, n)
				}
				require.Empty(e, e.target.take())
				e.loop.Resume()
				e.pass(time.Minute)
				seen := map[uint64]int{}
				for _, c := range e.target.take() {
					seen[c.id]++
				}
				for id, times := range seen {
					require.Equal(e, 1, times, "object %d", id)
				}
				require.Len(e, seen, n)
			}, beside, reconciler.WithRoundLimits(10, nil))
		})
	}
}

func TestReapplyAfterTheStopIsAnError(t *testing.T) {
	bothLedgers(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.stop()
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.ErrorIs(e, err, inspect.ErrStopped)
	}, reconciler.WithoutPruning())
}

// repeating asks for another run of object 1, whose row has not changed.
var repeating = map[string]func(e *env){
	"reapply": func(e *env) {
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.NoError(e, err)
	},
	"retry": func(e *env) {
		_, err := e.loop.Retry(e.Context())
		require.NoError(e, err)
	},
	"refresh": func(e *env) {
		_, err := e.loop.Refresh(e.Context(), "1")
		require.NoError(e, err)
	},
	"refresh of all": func(e *env) {
		_, err := e.loop.Refresh(e.Context())
		require.NoError(e, err)
	},
	"trigger": func(e *env) {
		source, err := statedb.NewTable(e.db, "sources", idIndex)
		require.NoError(e, err)
		by, err := trigger.New(trigger.Config[*object, *object]{
			Loop: e.loop, Source: source,
			Dependents: func(statedb.Change[*object]) []statedb.Query[*object] {
				return []statedb.Query[*object]{idIndex.Query(1)}
			},
		})
		require.NoError(e, err)
		stop := reconcilertest.Go(e, by.Run)
		wtxn := e.db.WriteTxn(source)
		_, _, err = source.Insert(wtxn, &object{ID: 5})
		require.NoError(e, err)
		wtxn.Commit()
		e.pass(time.Second)
		stop()
		by.Close()
	},
	"another reconciler": func(e *env) {
		e.Insert(e.get(1).Clone().SetOther(reconciler.StatusDone()))
	},
}

func TestWaitsForAppliedOutlastCallsForAnotherRun(t *testing.T) {
	for name, ask := range repeating {
		for _, state := range []string{"failed", "running", "just failed"} {
			t.Run(name+" "+state, func(t *testing.T) {
				bothLedgers(t, func(e *env) {
					if name == "another reconciler" && e.loop.Outcomes() != nil {
						e.Skip("beside the table each version is a change")
					}
					e.target.failing("down")
					if state == "running" {
						e.target.takes(time.Second)
					}
					rev := e.put(1, 1)
					if state == "failed" {
						e.pass(10 * time.Second)
					} else {
						e.pass(10 * time.Millisecond)
					}
					waits := map[string]<-chan waited{
						"Wait": e.wait(rev, reconciler.Applied), "WaitFor": e.waitFor(reconciler.Applied, 1),
						"WaitAll": during(func() (inspect.Unapplied, error) { return e.loop.WaitAll(e.Context(), reconciler.Applied) }),
						"WaitKey": during(func() (inspect.Unapplied, error) { return e.loop.WaitKey(e.Context(), "1", reconciler.Applied) }),
					}
					ask(e)
					for range 20 {
						e.pass(time.Second)
						for wait, over := range waits {
							select {
							case w := <-over:
								e.Fatalf("%s is over: %+v", wait, w)
							default:
							}
						}
						_, low, err := e.loop.WaitUntilReconciled(e.Context(), rev)
						require.NoError(e, err)
						require.LessOrEqual(e, low, rev, "the low watermark")
						require.NotZero(e, low)
					}
					e.target.failing("")
					e.pass(time.Minute)
					for _, over := range waits {
						e.nothingUnapplied(<-over)
					}
					require.Equal(e, map[uint64]int{1: 1}, e.target.holds())
				}, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
			})
		}
	}
}

func TestReapplyDoesNotWriteTheRow(t *testing.T) {
	bothLedgers(t, func(e *env) {
		e.target.deciding(failOne("no space"))
		e.put(1, 1, 2)
		e.Insert(&object{ID: 3})
		e.pass(time.Second)
		e.target.take()
		revision, seen := e.table.Revision(e.db.ReadTxn()), statedb.Revision(0)
		e.hook(func(context.Context, call) { seen = e.table.Revision(e.db.ReadTxn()) })
		_, err := e.loop.Reapply(e.Context(), objects(2)...)
		require.NoError(e, err)
		e.pass(time.Second)
		require.Len(e, e.target.take(), 1)
		require.Equal(e, revision, seen)
	}, reconciler.WithRetry(time.Minute, time.Hour), reconciler.WithoutPruning())
}

func TestReapplyDuringAPauseIsARefreshAfterIt(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		was := e.get(1).Status.UpdatedAt
		e.target.take()
		e.target.mutate = func(o *object) { o.Note = "handle" }
		e.loop.PauseObjects(func(*object) bool { return true })
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.NoError(e, err)
		e.pass(time.Second)
		require.Empty(e, e.target.take())
		e.loop.Resume()
		e.pass(time.Second)
		require.Equal(e, []string{"refresh(1)"}, e.target.calls())
		require.Equal(e, "handle", e.get(1).Note, "what the update has set")
		require.True(e, e.get(1).Status.UpdatedAt.After(was))
	}, nil)
}

// The operation that runs when Reapply is called may have read what has changed since: its success is not shown.
func TestSuccessOfAnOperationThatRunsAtReapplyIsNotShown(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.takes(time.Second)
		e.put(1, 1)
		e.pass(100 * time.Millisecond)
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.NoError(e, err)
		e.pass(1200 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindPending, e.kind(1), "the second operation runs")
		e.pass(time.Second)
		require.Equal(e, reconciler.StatusKindDone, e.kind(1))
		require.Len(e, e.target.take(), 2)
	}, nil, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
}
