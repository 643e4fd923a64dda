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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// notes returns the notes of the operations on an object, in order of time.
func (e *env) notes(id uint64) []string {
	var notes []string
	for _, ev := range e.loop.Operations(inspect.OperationQuery{Key: fmt.Sprint(id)}) {
		notes = append(notes, ev.Op+": "+ev.Note)
	}
	return notes
}

// Each operation has its own note, however it is called, even if it fails. The last note of an
// operation counts.
func TestEachOperationHasItsOwnNote(t *testing.T) {
	withHooks(t, func(e *env, h *hooked) {
		failing := true
		h.update = func(ctx context.Context, o *object) error {
			reconciler.NoteOn(ctx, o, "wrong")
			if o.ID == 3 {
				reconciler.NoteOn(ctx, o, "")
				return nil
			}
			reconciler.NoteOn(ctx, o.Clone(), fmt.Sprintf("took the way of %d", o.ID))
			reconciler.NoteOn(ctx, &object{ID: 9}, "of no object")
			if o.ID == 1 && failing {
				failing = false
				return errors.New("no")
			}
			return nil
		}
		h.remove = func(ctx context.Context, o *object) error {
			reconciler.NoteOn(ctx, &object{ID: 4}, "not in this call")
			reconciler.NoteOn(ctx, o, fmt.Sprintf("left by %d", o.ID))
			return nil
		}
		e.put(1, 1, 2, 3)
		e.pass(time.Second)
		e.remove(2)
		synctest.Wait()
		require.Equal(e, []string{"update: took the way of 1", "update: took the way of 1"}, e.notes(1))
		require.Equal(e, []string{"update: took the way of 2", "delete: left by 2"}, e.notes(2))
		require.Equal(e, []string{"update: "}, e.notes(3))
		records := 0
		for _, round := range e.loop.Rounds() {
			for _, op := range round.Operations {
				if op.Note != "" {
					records++
				}
			}
		}
		require.Equal(e, 4, records, "in the journal")
	})
}

// A goroutine that an operation has left behind may write its note at any time, also while the next operations of
// the pass begin.
func TestLateNoteDoesNotRaceWithTheNextOperations(t *testing.T) {
	withHooks(t, func(e *env, h *hooked) {
		h.update = func(ctx context.Context, o *object) error {
			if o.ID == 1 {
				go func() {
					for range 2000 {
						reconciler.Note(ctx, "late")
					}
				}()
			}
			return nil
		}
		e.put(1, ids(1, 1000)...)
		e.pass(time.Second)
		require.Equal(e, reconciler.StatusKindDone, e.kind(1000))
	})
}

// Package running is for adapters: an operation on one object can ask for the row, a batch has no single row.
func TestRowReturnsTheRowOfTheRunningOperation(t *testing.T) {
	for _, batched := range []bool{false, true} {
		inBubble(t, func(e *env) {
			calls := 0
			e.target.before = func(ctx context.Context, c call) {
				calls++
				is, ok := running.Row[*object](ctx)
				if assert.Equal(e, !batched, ok, "a single row"); batched {
					return
				}
				stored, _, _ := e.table.Get(e.db.ReadTxn(), idIndex.Query(c.id))
				assert.Same(e, stored, is, "the row, not the clone")
				_, ok = running.Row[object](ctx)
				assert.False(e, ok, "rows of another type")
				half := *stored
				half.Value = -1
				assert.NoError(e, reconciler.Checkpoint(ctx, &half))
				is, ok = running.Row[*object](ctx)
				assert.True(e, ok)
				assert.Equal(e, -1, is.Value, "what the checkpoint wrote")
			}
			e.put(1, 1, 2)
			synctest.Wait()
			require.Equal(e, 2, calls)
		}, func(e *env, cfg *reconciler.Config[*object]) {
			if batched {
				cfg.BatchOperations = batchTarget{e.target}
			}
		}, reconciler.WithoutPruning())
	}
	_, ok := running.Row[*object](t.Context())
	require.False(t, ok, "outside an operation")
	// The functions are not called then.
	running.Comparer[*object](nil, nil, nil)(t.Context(), &object{})
}
