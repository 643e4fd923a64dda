// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// hooked is a target whose operations are functions of the test, called with the object of the
// operation.
type hooked struct {
	update, remove func(ctx context.Context, o *object) error
	updates        atomic.Int64
}

func (h *hooked) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, o *object) error {
	h.updates.Add(1)
	return h.update(ctx, o)
}

func (h *hooked) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, o *object) error {
	if h.remove == nil {
		return nil
	}
	return h.remove(ctx, o)
}

func (h *hooked) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	for i := range batch {
		batch[i].Result = h.Update(ctx, txn, batch[i].Revision, batch[i].Object)
	}
}

func (h *hooked) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	for i := range batch {
		batch[i].Result = h.Delete(ctx, txn, batch[i].Revision, batch[i].Object)
	}
}

// hookedRounds has the same operations in rounds.
type hookedRounds struct{ *hooked }

func (h hookedRounds) ProcessRound(ctx context.Context, txn statedb.ReadTxn, deletes, updates []reconciler.BatchEntry[*object]) {
	h.hooked.DeleteBatch(ctx, txn, deletes)
	h.hooked.UpdateBatch(ctx, txn, updates)
}

// withHooks runs a test with each kind of operations, each with one worker and with four.
func withHooks(t *testing.T, test func(e *env, h *hooked), opts ...reconciler.Option) {
	withHooksAnd(t, nil, test, opts...)
}

// withHooksAnd is withHooks with a change of the configuration, which may be nil.
func withHooksAnd(t *testing.T, change configure, test func(e *env, h *hooked), opts ...reconciler.Option) {
	for _, kind := range []string{"single", "batches", "rounds"} {
		var h *hooked
		eachConcurrency(t, kind, func(e *env) { test(e, h) }, both(change, func(e *env, cfg *reconciler.Config[*object]) {
			h = &hooked{}
			cfg.Operations = h
			switch kind {
			case "batches":
				cfg.BatchOperations = h
			case "rounds":
				cfg.RoundOperations = hookedRounds{h}
			}
		}), opts...)
	}
}

// keepNote is the merge function of a reconciler whose operations set the note.
func keepNote(current, reconciled *object) *object {
	current.Note = reconciled.Note
	return current
}

// other writes the row like another reconciler that sets its own status and the value.
func (e *env) other(id uint64, value int) {
	e.write(func(wtxn statedb.WriteTxn) {
		o, _, found := e.table.Get(wtxn, idIndex.Query(id))
		require.True(e, found)
		o = o.Clone().SetOther(reconciler.StatusDone())
		o.Value = value
		_, _, err := e.table.Insert(wtxn, o)
		require.NoError(e, err)
	})
}

// A checkpoint is in the table for all readers before the update ends. Its row keeps the status that
// asks for the update. The outcome is written onto that row.
func TestCheckpointIsInTheTableBeforeTheEnd(t *testing.T) {
	withHooks(t, func(e *env, h *hooked) {
		h.update = func(ctx context.Context, o *object) error {
			asked := e.get(1).Status
			for i := range 3 {
				o.Note = fmt.Sprint("step ", i)
				assert.NoError(e, reconciler.Checkpoint(ctx, o))
				row := e.get(1)
				assert.Equal(e, fmt.Sprint("step ", i), row.Note)
				assert.Equal(e, asked, row.Status)
				assert.NotSame(e, o, row)
				time.Sleep(time.Second)
			}
			o.Note = "finished"
			assert.Equal(e, "step 2", e.get(1).Note, "the row is a clone")
			return nil
		}
		e.put(1, 1)
		e.pass(time.Minute)
		require.Equal(e, "finished", e.get(1).Note)
		e.status(1, reconciler.StatusKindDone, "")
		require.EqualValues(e, 1, h.updates.Load(), "a checkpoint does not cause another update")
		_, low, err := e.loop.WaitUntilReconciled(e.Context(), e.table.Revision(e.db.ReadTxn()))
		require.NoError(e, err)
		require.Zero(e, low)
	})
}

// A checkpoint stays in the table whatever the outcome of its update is, and the next attempt gets it.
func TestCheckpointOutlivesTheUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind reconciler.StatusKind
	}{
		"failed":   {errPlain, reconciler.StatusKindError},
		"terminal": {reconciler.TerminalError(errPlain), reconciler.StatusKindError},
		"blocked":  {reconciler.Blocked("door"), reconciler.StatusKindBlocked},
		"requeue":  {reconciler.Requeue(time.Minute), reconciler.StatusKindDone},
		"panic":    {nil, reconciler.StatusKindError},
	} {
		t.Run(name, func(t *testing.T) {
			withHooks(t, func(e *env, h *hooked) {
				h.update = func(ctx context.Context, o *object) error {
					if o.Note != "" {
						return nil
					}
					o.Note = "created"
					assert.NoError(e, reconciler.Checkpoint(ctx, o))
					o.Note = "half"
					if name == "panic" {
						crash()
					}
					return c.err
				}
				e.put(1, 1)
				synctest.Wait()
				require.Equal(e, c.kind, e.kind(1))
				require.Equal(e, "half", e.get(1).Note, "like every outcome it has the changes of the update")
				e.setStatus(1, reconciler.StatusPending())
				e.pass(time.Minute)
				e.status(1, reconciler.StatusKindDone, "")
				require.Equal(e, "half", e.get(1).Note)
			})
		})
	}
}

// If the object was changed or deleted meanwhile, a checkpoint returns ErrConflict and writes nothing.
// Then the latest version is reconciled.
func TestCheckpointOfAChangedObjectIsAConflict(t *testing.T) {
	for name, interfere := range map[string]func(e *env){
		"changed":  func(e *env) { e.put(2, 1) },
		"deleted":  func(e *env) { e.remove(1) },
		"replaced": func(e *env) { e.remove(1); e.put(2, 1) },
		"vouched":  func(e *env) { e.setStatus(1, reconciler.StatusDone()) },
	} {
		for merge, change := range map[bool]configure{false: nil, true: merging(keepNote)} {
			t.Run(fmt.Sprintf("%s, merge %t", name, merge), func(t *testing.T) {
				withHooksAnd(t, change, func(e *env, h *hooked) {
					var removed atomic.Int64
					h.remove = func(context.Context, *object) error { removed.Add(1); return nil }
					h.update = func(ctx context.Context, o *object) error {
						if h.updates.Load() > 1 {
							assert.Equal(e, name == "vouched", o.Value == 1)
							return nil
						}
						assert.NoError(e, reconciler.Checkpoint(ctx, o))
						interfere(e)
						before := e.table.Revision(e.db.ReadTxn())
						o.Note = "mine"
						err := reconciler.Checkpoint(ctx, o)
						assert.ErrorIs(e, err, reconciler.ErrConflict)
						assert.EqualError(e, err, "checkpoint: the object has changed")
						assert.Equal(e, before, e.table.Revision(e.db.ReadTxn()))
						return err
					}
					e.put(1, 1)
					e.pass(time.Minute)
					if name == "deleted" {
						require.Nil(e, e.get(1))
						require.EqualValues(e, 1, removed.Load())
						return
					}
					e.status(1, reconciler.StatusKindDone, "")
					require.Empty(e, e.get(1).Note)
				})
			})
		}
	}
}

// With Config.Merge, neither a checkpoint nor the outcome overwrites what another reconciler has
// written, whether before, between or after the checkpoints.
func TestMergedCheckpointsKeepWhatOthersWrote(t *testing.T) {
	for name, writes := range map[string][3]bool{
		"before": {true, false, false}, "between": {false, true, false}, "after": {false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			withHooksAnd(t, merging(keepNote), func(e *env, h *hooked) {
				h.update = func(ctx context.Context, o *object) error {
					for i, write := range writes {
						if write {
							e.other(1, 7)
						}
						if o.Note = fmt.Sprint("step ", i); i < 2 {
							assert.NoError(e, reconciler.Checkpoint(ctx, o))
							assert.Equal(e, o.Note, e.get(1).Note)
							assert.Equal(e, reconciler.StatusKindPending, e.kind(1))
						}
					}
					return nil
				}
				e.put(1, 1)
				synctest.Wait()
				e.status(1, reconciler.StatusKindDone, "")
				require.Equal(e, "step 2", e.get(1).Note)
				require.Equal(e, 7, e.get(1).Value)
				require.Equal(e, reconciler.StatusKindDone, e.get(1).Other.Kind)
				require.EqualValues(e, 1, h.updates.Load())
			})
		})
	}
}

// If another reconciler writes the object during an update without checkpoints, Config.Merge keeps what
// the update set. Without Merge, only the status of the outcome is written.
func TestMergeKeepsWhatAnUpdateSet(t *testing.T) {
	for _, merge := range []bool{false, true} {
		var change configure
		want := ""
		if merge {
			change, want = merging(keepNote), "mine"
		}
		withHooksAnd(t, change, func(e *env, h *hooked) {
			h.update = func(_ context.Context, o *object) error {
				o.Note = "mine"
				e.other(1, 7)
				return nil
			}
			e.put(1, 1)
			synctest.Wait()
			e.status(1, reconciler.StatusKindDone, "")
			require.Equal(e, want, e.get(1).Note)
			require.Equal(e, 7, e.get(1).Value)
			require.Equal(e, reconciler.StatusKindDone, e.get(1).Other.Kind)
		})
	}
}

// noOperation asserts that a checkpoint of o with this context fails and changes nothing.
func (e *env) noOperation(ctx context.Context, o *object, why string) {
	e.Helper()
	before := e.get(o.ID)
	err := reconciler.Checkpoint(ctx, o)
	assert.ErrorIs(e, err, reconciler.ErrNoOperation, why)
	assert.ErrorContains(e, err, "checkpoint: not in an update of this object", why)
	assert.Same(e, before, e.get(o.ID), why)
}

// Only an update can make a checkpoint, and only of its own object.
func TestCheckpointOutsideOfAnUpdate(t *testing.T) {
	type foreign struct{ *object }
	withHooks(t, func(e *env, h *hooked) {
		var mu sync.Mutex
		var after []func()
		h.update = func(ctx context.Context, o *object) error {
			e.noOperation(context.Background(), o, "without the context")
			e.noOperation(ctx, &object{ID: 3}, "another object")
			assert.ErrorIs(e, reconciler.Checkpoint(ctx, foreign{o}), reconciler.ErrNoOperation, "an object of another type")
			mu.Lock()
			defer mu.Unlock()
			after = append(after, func() { e.noOperation(ctx, o, "after the end of the update") })
			return nil
		}
		h.remove = func(ctx context.Context, o *object) error {
			e.noOperation(ctx, o, "in a deletion")
			return nil
		}
		e.noOperation(e.Context(), &object{ID: 1}, "with the context of the test")
		e.put(1, 1, 2)
		synctest.Wait()
		for _, f := range after {
			f()
		}
		e.remove(1)
		synctest.Wait()
		e.status(2, reconciler.StatusKindDone, "")
	})
}

// waitsForTable returns when a goroutine that has function on its stack waits for the lock of the
// table.
func waitsForTable(function string) {
	stacks := make([]byte, 1<<20)
	for {
		all := string(stacks[:runtime.Stack(stacks, true)])
		for stack := range strings.SplitSeq(all, "\n\n") {
			if strings.Contains(stack, "Mutex.Lock") && strings.Contains(stack, "(*DB).WriteTxn") && strings.Contains(stack, function) {
				return
			}
		}
		runtime.Gosched()
	}
}

// A goroutine that holds the write transaction of the table can query the loop, although a checkpoint
// waits for the table.
func TestCheckpointWaitingForTheTableHoldsUpNoQuery(t *testing.T) {
	withHooks(t, func(e *env, h *hooked) {
		h.update = func(ctx context.Context, o *object) error {
			wtxn := e.db.WriteTxn(e.table)
			written := make(chan error)
			o.Note = "step"
			go func() { written <- reconciler.Checkpoint(ctx, o) }()
			waitsForTable(".checkpoint(")
			reconciler.Note(ctx, "noted")
			reconciler.NoteOn(ctx, o, "noted")
			assert.Equal(e, "Pending", e.loop.Explain(ctx, "1").Status)
			assert.NotEmpty(e, e.loop.Snapshot(ctx).Condition)
			wtxn.Abort()
			assert.NoError(e, <-written)
			return nil
		}
		e.put(1, 1)
		e.pass(time.Second)
		e.status(1, reconciler.StatusKindDone, "")
		require.Equal(e, "step", e.get(1).Note)
		require.Equal(e, "noted", e.loop.Operations(inspect.OperationQuery{Key: "1"})[0].Note)
	})
}

// A checkpoint that waits for the table until its operation is over writes nothing.
func TestCheckpointAfterItsOperationWritesNothing(t *testing.T) {
	withHooks(t, func(e *env, h *hooked) {
		var late error
		h.update = func(ctx context.Context, o *object) error {
			if h.updates.Load() > 1 {
				return nil
			}
			wtxn := e.db.WriteTxn(e.table)
			o = o.Clone()
			o.Note = "too late"
			go func() { late = reconciler.Checkpoint(ctx, o) }()
			waitsForTable(".checkpoint(")
			go func() {
				waitsForTable(".commit(")
				wtxn.Abort()
			}()
			return errPlain
		}
		e.put(1, 1)
		e.pass(time.Second)
		require.ErrorIs(e, late, reconciler.ErrNoOperation)
		e.status(1, reconciler.StatusKindDone, "")
		require.Empty(e, e.get(1).Note)
		require.EqualValues(e, 2, h.updates.Load())
	})
}
