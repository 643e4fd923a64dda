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
	for _, ev := range e.loop.Events(inspect.EventQuery{Key: fmt.Sprint(id)}) {
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
		for _, round := range e.loop.Journal() {
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
// note of a deletion.
func TestNoteIsOnlyForItsKindOfOperation(t *testing.T) {
	var h *hooked
	eachConcurrency(t, "batches", func(e *env) {
		h.update = func(ctx context.Context, _ *object) error {
			reconciler.NoteOn(ctx, &object{ID: 1}, "of an update")
			return nil
		}
		h.remove = func(ctx context.Context, _ *object) error {
			reconciler.NoteOn(ctx, &object{ID: 2}, "of a deletion")
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
	var h *hooked
	eachConcurrency(t, "single", func(e *env) {
		h.update = func(ctx context.Context, o *object) error {
			reconciler.Note(ctx, fmt.Sprintf("here is %d", o.ID))
			return nil
		}
		h.remove = func(ctx context.Context, o *object) error {
			reconciler.Note(ctx, fmt.Sprintf("there goes %d", o.ID))
			return nil
		}
		e.put(1, 1, 2)
		synctest.Wait()
		e.remove(2)
		synctest.Wait()
		require.Equal(e, []string{"update: here is 1"}, e.notes(1))
		require.Equal(e, []string{"update: here is 2", "delete: there goes 2"}, e.notes(2))

		x := e.loop.Explain(e.Context(), "1")
		require.Contains(e, x.String(), "Note")
		require.Contains(e, x.String(), "here is 1")
		raw, err := json.Marshal(x)
		require.NoError(e, err)
		require.Contains(e, string(raw), `"note":"here is 1"`)
	}, func(_ *env, cfg *reconciler.Config[*object]) {
		h = &hooked{}
		cfg.Operations = h
	})
}

// A note without an object is dropped outside operations, and in operations on several objects.
func TestNotesOfNoOperationAreDropped(t *testing.T) {
	var h *hooked
	inBubble(t, func(e *env) {
		var ended context.Context
		h.update = func(ctx context.Context, o *object) error {
			ended = ctx
			reconciler.Note(ctx, "of a batch")
			reconciler.NoteOn(ctx, *o, "of another type")
			return nil
		}
		reconciler.Note(e.Context(), "of a test")
		reconciler.NoteOn(e.Context(), &object{ID: 1}, "of a test")
		e.put(1, 1)
		synctest.Wait()
		reconciler.Note(ended, "too late")
		reconciler.NoteOn(ended, &object{ID: 1}, "too late")
		require.Equal(e, []string{"update: "}, e.notes(1))
		x := e.loop.Explain(e.Context(), "1")
		require.NotContains(e, x.String(), "Note", "no column without notes")
	}, func(_ *env, cfg *reconciler.Config[*object]) {
		h = &hooked{}
		cfg.BatchOperations = h
	})
}

// A note that is too long is cut between two runes.
func TestNotesAreBounded(t *testing.T) {
	for _, text := range []string{strings.Repeat("a", reconciler.MaxNote), strings.Repeat("a", reconciler.MaxNote+1), strings.Repeat("ä", reconciler.MaxNote),
		"b" + strings.Repeat("ä", reconciler.MaxNote), strings.Repeat("\x80", 2*reconciler.MaxNote)} {
		var h *hooked
		inBubble(t, func(e *env) {
			h.update = func(ctx context.Context, _ *object) error {
				reconciler.Note(ctx, text)
				return nil
			}
			e.put(1, 1)
			synctest.Wait()
			note := e.loop.Events(inspect.EventQuery{})[0].Note
			require.LessOrEqual(e, len(note), reconciler.MaxNote)
			if kept, was := strings.CutSuffix(note, "…"); was {
				require.Greater(e, len(text), reconciler.MaxNote)
				require.True(e, strings.HasPrefix(text, kept))
				require.NotContains(e, kept, "\ufffd")
			} else {
				require.Equal(e, text, note)
			}
		}, func(_ *env, cfg *reconciler.Config[*object]) {
			h = &hooked{}
			cfg.Operations = h
		}, reconciler.WithoutPruning())
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
