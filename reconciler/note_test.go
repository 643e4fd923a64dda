// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

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

// Each operation has its own note, however it is called, and also if it fails. The last note of an
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

// A deletion cannot set the note of an update that follows in the same round, nor an update the
// note of a deletion. Neither can make a checkpoint of the other's object.
func TestNoteIsOnlyForItsKindOfOperation(t *testing.T) {
	var h *hooked
	eachConcurrency(t, "batches", func(e *env) {
		h.update = func(ctx context.Context, _ *object) error {
			reconciler.NoteOn(ctx, &object{ID: 1}, "of an update")
			return nil
		}
		h.remove = func(ctx context.Context, _ *object) error {
			reconciler.NoteOn(ctx, &object{ID: 2}, "of a deletion")
			e.noOperation(ctx, &object{ID: 2}, "an update of the same round")
			return nil
		}
		e.put(1, 1)
		synctest.Wait()
		e.write(func(wtxn statedb.WriteTxn) {
			_, _, err := e.table.Delete(wtxn, &object{ID: 1})
			require.NoError(e, err)
			_, _, err = e.table.Insert(wtxn, &object{ID: 2, Status: reconciler.StatusPending()})
			require.NoError(e, err)
		})
		synctest.Wait()
		require.Equal(e, []string{"update: of an update", "delete: "}, e.notes(1))
		require.Equal(e, []string{"update: "}, e.notes(2))
	}, func(_ *env, cfg *reconciler.Config[*object]) {
		h = &hooked{}
		cfg.BatchOperations = h
	})
}

// A single operation does not need to name its object to set a note.
func TestNoteOfASingleOperationNeedsNoObject(t *testing.T) {
	singly(t, func(e *env) {
		e.hook(func(ctx context.Context, c call) { reconciler.Note(ctx, fmt.Sprintf("%s was here", c)) })
		e.put(1, 1)
		synctest.Wait()
		x := e.loop.Explain(e.Context(), "1")
		require.Contains(e, x.String(), "update(1) was here")
		raw, err := json.Marshal(x)
		require.NoError(e, err)
		require.Contains(e, string(raw), `"note":"update(1) was here"`)
		e.remove(1)
		synctest.Wait()
		require.Equal(e, []string{"update: update(1) was here", "delete: delete(1) was here"}, e.notes(1))
	})
}

// A note that is too long is cut between two runes.
func TestNotesAreBounded(t *testing.T) {
	const most = reconciler.MaxNote
	for _, text := range []string{
		strings.Repeat("a", most), strings.Repeat("a", most+1), strings.Repeat("ä", most),
		"b" + strings.Repeat("ä", most), strings.Repeat("\x80", 2*most),
	} {
		inBubble(t, func(e *env) {
			e.hook(func(ctx context.Context, _ call) { reconciler.Note(ctx, text) })
			e.put(1, 1)
			synctest.Wait()
			note := e.loop.Operations(inspect.OperationQuery{})[0].Note
			require.LessOrEqual(e, len(note), most)
			if kept, was := strings.CutSuffix(note, "…"); was {
				require.Greater(e, len(text), most)
				require.True(e, strings.HasPrefix(text, kept))
				require.NotContains(e, kept, "\ufffd")
			} else {
				require.Equal(e, text, note)
			}
		}, nil, reconciler.WithoutPruning())
	}
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
