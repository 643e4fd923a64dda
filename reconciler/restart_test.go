// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// hook sets what the target calls before each operation.
func (e *env) hook(before func(ctx context.Context, c call)) {
	e.target.mu.Lock()
	defer e.target.mu.Unlock()
	e.target.before = before
}

// again stops the loop, and starts another on the same table and target.
func (e *env) again(change func(cfg *reconciler.Config[*object])) {
	e.Helper()
	e.stop()
	e.stop = func() {}
	e.target.mu.Lock()
	e.target.late = false
	e.target.mu.Unlock()
	e.loop = nil
	cfg := e.config()
	if change != nil {
		change(&cfg)
	}
	e.start(cfg)
}

func TestWhatAnEarlierRunLeftFailedIsRun(t *testing.T) {
	for name, failure := range map[string]error{
		"error": errors.New("no space"), "terminal": reconciler.TerminalError(errors.New("no space")),
		"blocked": reconciler.Blocked("no device"),
	} {
		for _, ledger := range []string{"rows", "beside"} {
			t.Run(name+" "+ledger, func(t *testing.T) {
				change := func(cfg *reconciler.Config[*object]) {
					if ledger == "beside" {
						beside(nil, cfg)
					}
				}
				inBubble(t, func(e *env) {
					e.target.deciding(func(c call) error { return failure })
					e.put(1, 1, 2)
					e.remove(2)
					synctest.Wait()
					e.target.take()
					written := e.table.Revision(e.db.ReadTxn())
					e.hook(func(_ context.Context, c call) {
						if c.op == "update" && ledger == "rows" {
							require.Equal(e, written, e.table.Revision(e.db.ReadTxn()), "a status was written before the operation")
						}
					})
					e.again(change)
					ctx, cancel := context.WithTimeout(e.Context(), time.Millisecond)
					defer cancel()
					_, err := e.loop.WaitAll(ctx, reconciler.Applied)
					require.ErrorIs(e, err, context.DeadlineExceeded, "it fails again")
					require.NotEqual(e, inspect.StateDone, e.loop.Explain(e.Context(), "1").State)
					e.hook(nil)
					e.target.deciding(nil)
					e.again(change)
					rest, err := e.loop.WaitAll(e.Context(), reconciler.Applied)
					require.NoError(e, err)
					require.NoError(e, rest.Err())
					require.Equal(e, map[uint64]int{1: 1}, e.target.holds())
					x := e.loop.Explain(e.Context(), "1")
					require.Equal(e, inspect.StateDone, x.State, "%s", x)
				}, func(_ *env, cfg *reconciler.Config[*object]) { change(cfg) })
			})
		}
	}
}

func TestUpdateOfALeftFailureSeesPending(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.failing("no space")
		e.put(1, 1)
		synctest.Wait()
		e.target.deciding(nil)
		seen := 0
		e.target.mu.Lock()
		e.target.mutate = func(o *object) {
			seen++
			require.Equal(e, reconciler.StatusKindPending, o.Status.Kind)
			require.Empty(e, o.Status.GetError())
		}
		e.target.mu.Unlock()
		e.again(nil)
		synctest.Wait()
		require.Equal(e, 1, seen)
	}, nil)
}

// Programs of statedb/reconciler set such statuses to have an object left alone.
func TestFailureMadeByHandIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		byHand := reconciler.StatusError(errors.New("by hand"))
		byHand.ID = 0
		e.Insert(&object{ID: 1, Value: 1, Status: byHand})
		e.start(e.config())
		synctest.Wait()
		e.Insert(&object{ID: 2, Value: 1, Status: reconciler.StatusError(errors.New("while it runs"))})
		synctest.Wait()
		time.Sleep(time.Hour)
		require.Empty(t, e.target.holds())
		require.Equal(t, "by hand", e.get(1).Status.GetError())
		require.Equal(t, "while it runs", e.get(2).Status.GetError())
		e.stop()
	})
}

// decoded returns the status that another process has stored, which had made more statuses.
func decoded(t *testing.T, kind reconciler.StatusKind, id uint64) (s reconciler.Status) {
	stored := fmt.Sprintf(`{"updated-at":"1999-12-31T00:00:00Z","error":"down","id":%d,"kind":%q}`, id, kind)
	require.NoError(t, json.Unmarshal([]byte(stored), &s))
	return s
}

func TestFailureOfAnotherProcessIsRun(t *testing.T) {
	for _, kind := range []reconciler.StatusKind{status.KindError, status.KindBlocked} {
		for _, named := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				s := decoded(t, kind, reconciler.StatusPending().ID+5000)
				if named {
					text, err := json.Marshal(reconciler.NewStatusSet().Set("other", s))
					require.NoError(t, err)
					var all reconciler.StatusSet
					require.NoError(t, json.Unmarshal(text, &all))
					s = all.Get("other")
				}
				e.Insert(&object{ID: 1, Value: 1, Status: s, Other: s})
				e.start(e.config())
				e.Insert(&object{ID: 2, Value: 1, Status: s, Other: s})
				e.pass(time.Minute)
				e.Insert(&object{ID: 3, Value: 1, Status: s, Other: s})
				e.pass(time.Minute)
				e.eachDone()
				e.stop()
			})
		}
	}
}

// keepsHandles merges the note, which an update sets.
func keepsHandles(_ *env, cfg *reconciler.Config[*object]) {
	cfg.Merge = func(current, reconciled *object) *object { current.Note = reconciled.Note; return current }
}

func TestMergeKeepsTheRefreshOfARowOfAnotherProcess(t *testing.T) {
	for _, id := range []uint64{0, reconciler.StatusPending().ID + 5000} {
		inBubble(t, func(e *env) {
			s := decoded(e.T, status.KindDone, id)
			e.Insert(&object{ID: 1, Value: 1, Status: s, Other: s})
			e.pass(time.Second)
			e.target.mutate = func(o *object) { o.Note = "handle" }
			e.hook(func(context.Context, call) {
				e.Insert(e.get(1).Clone().SetOther(reconciler.StatusDone()))
			})
			_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
			require.NoError(e, err)
			e.pass(time.Minute)
			require.Equal(e, []string{"refresh(1)"}, e.target.calls())
			require.Equal(e, "handle", e.get(1).Note, "what the update has set")
		}, keepsHandles)
	}
}

func TestEndOfTheLoopIsNoFailureOfAnObject(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		inBubble(t, func(e *env) {
			e.hook(func(ctx context.Context, c call) { <-ctx.Done() })
			e.target.deciding(func(call) error { return context.Canceled })
			e.write(func(wtxn statedb.WriteTxn) {
				_, _, err := e.table.Insert(wtxn, &object{ID: 1, Value: 1, Status: reconciler.StatusPending()})
				require.NoError(e, err)
			})
			synctest.Wait()
			e.hook(nil)
			e.stop()
			require.Equal(e, reconciler.StatusKindPending, e.kind(1))
			e.target.deciding(nil)
			e.again(nil)
			synctest.Wait()
			require.Equal(e, reconciler.StatusKindDone, e.kind(1))
		}, func(_ *env, cfg *reconciler.Config[*object]) {
			cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = concurrency }))
		})
	}
}
