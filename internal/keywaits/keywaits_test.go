// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package keywaits

import (
	"sync"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/rows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row string

func (row) TableHeader() []string { return []string{"Name"} }
func (r row) TableRow() []string  { return []string{string(r)} }

// unmarked is the mark of a table whose rows show what is Done.
type unmarked struct{}

func (unmarked) Covers(statedb.Revision) bool { return false }
func (unmarked) Scattered() bool              { return false }

// env has waits, and the states of the keys that are not reconciled.
type env struct {
	*testing.T
	*Waits[row]
	unreconciled map[row]Unreconciled
	// paused is the row that is paused.
	paused row
}

func newEnv(t *testing.T) *env {
	db := statedb.New()
	table, err := statedb.NewTable(db, "rows", statedb.Index[row, string]{
		Name:       "name",
		FromObject: func(r row) index.KeySet { return index.NewKeySet(index.String(string(r))) },
		FromKey:    index.String,
		Unique:     true,
	})
	require.NoError(t, err)
	e := &env{T: t, unreconciled: map[row]Unreconciled{}}
	e.Waits = New(rows.New(db, table, rows.Functions[row]{}), func(r row) (Unreconciled, bool) {
		d, found := e.unreconciled[r]
		return d, found
	}, func(r row) bool { return e.paused == r }, unmarked{})
	return e
}

// wait begins a wait for a key, and checks it.
func (e *env) wait(w Wait[row], seen statedb.Revision) *Wait[row] {
	e.Join(&w)
	e.BeginRound(seen)
	return &w
}

// expect requires a wait to be over, or not.
func (e *env) expect(over bool, w *Wait[row], why string) {
	e.Helper()
	select {
	case <-w.Met():
		require.True(e, over, why)
	default:
		require.False(e, over, why)
	}
}

func TestWaitIsOverAtItsMilestone(t *testing.T) {
	open := func(revision statedb.Revision, deleted, attempted bool) *Unreconciled {
		return &Unreconciled{revision, deleted, attempted}
	}
	for name, c := range map[string]struct {
		wait     Wait[row]
		u        *Unreconciled
		seen     statedb.Revision
		over     bool
		inserted bool
	}{
		"row, reconciled":                       {wait: Wait[row]{Revision: 5}, seen: 5},
		"row, not attempted":                    {wait: Wait[row]{Revision: 5}, u: open(5, false, false)},
		"row, attempted":                        {wait: Wait[row]{Revision: 5}, u: open(5, false, true), over: true},
		"row, an older version attempted":       {wait: Wait[row]{Revision: 5}, u: open(4, false, true)},
		"row, a later version attempted":        {wait: Wait[row]{Revision: 5}, u: open(6, false, true), over: true},
		"deleted, not seen":                     {wait: Wait[row]{Revision: 5, Deleted: true}, seen: 4},
		"deleted, seen":                         {wait: Wait[row]{Revision: 5, Deleted: true}, seen: 5, over: true},
		"deleted, unreconciled":                 {wait: Wait[row]{Revision: 5, Deleted: true}, u: open(5, true, false), seen: 5},
		"deleted, attempted":                    {wait: Wait[row]{Revision: 5, Deleted: true}, u: open(5, true, true), seen: 5, over: true},
		"deleted, attempted, for applied":       {wait: Wait[row]{Revision: 5, Deleted: true, Milestone: progress.Applied}, u: open(5, true, true), seen: 5},
		"deleted, an older row is unreconciled": {wait: Wait[row]{Revision: 5, Deleted: true}, u: open(4, false, true), seen: 5},
		"deleted, inserted again":               {wait: Wait[row]{Revision: 5, Deleted: true}, u: open(6, false, false), seen: 5, over: true, inserted: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			c.wait.Object = "a"
			if c.u != nil {
				e.unreconciled["a"] = *c.u
			}
			w := e.wait(c.wait, c.seen)
			e.expect(c.over, w, name)
			if c.over {
				require.Equal(e, c.inserted, w.Inserted())
				require.Zero(e, e.Waiting())
			}
		})
	}
}

func TestWaitIsCheckedWhenItsKeyChanges(t *testing.T) {
	e := newEnv(t)
	e.unreconciled["a"], e.unreconciled["b"] = Unreconciled{Revision: 3}, Unreconciled{Revision: 3, Deleted: true}
	a, b := e.wait(Wait[row]{Object: "a", Revision: 3, From: 3}, 3), e.wait(Wait[row]{Object: "b", Revision: 4, From: 4, Deleted: true}, 3)

	e.unreconciled["a"] = Unreconciled{Revision: 3, Attempted: true}
	e.EndRound(3)
	e.expect(false, a, "nothing happened to its key")
	require.True(e, e.NotePaused(func(r row) bool { return r == "a" })("a"))
	e.expect(false, a, "the round has not ended")
	e.EndRound(3)
	e.expect(true, a, "its state changed")
	require.Nil(e, e.NotePaused(nil))

	delete(e.unreconciled, "b")
	e.NoteOperation("b", 3, false, true)
	e.EndRound(3)
	e.expect(false, b, "an update of an older row has ended")
	e.NoteOperation("b", 3, true, true)
	e.EndRound(3)
	e.expect(true, b, "its deletion has ended")
	require.False(e, b.Inserted())
}

func TestOperationOnALaterVersionEndsAWait(t *testing.T) {
	for _, m := range []progress.Milestone{progress.Attempted, progress.Applied} {
		e := newEnv(t)
		// The key is written again during each operation.
		e.unreconciled["a"] = Unreconciled{Revision: 9}
		w := e.wait(Wait[row]{Object: "a", Revision: 3, From: 3, Milestone: m}, 9)
		e.NoteOperation("a", 2, false, true)
		e.EndRound(9)
		e.expect(false, w, "an older version")
		e.NoteOperation("a", 4, false, false)
		e.EndRound(9)
		e.expect(m == progress.Attempted, w, "a later version failed")
		e.NoteOperation("a", 5, false, true)
		e.EndRound(9)
		e.expect(true, w, "a later version was applied")
	}
}

func TestWaitForADeletionEndsAtItsRevision(t *testing.T) {
	e := newEnv(t)
	var waits []*Wait[row]
	for revision := range statedb.Revision(10) {
		waits = append(waits, e.wait(Wait[row]{Object: "a", Revision: 10 - revision, Deleted: true}, 0))
	}
	for seen := range statedb.Revision(11) {
		e.EndRound(seen)
		require.Equal(e, 10-int(seen), e.Waiting())
	}
	for _, w := range waits {
		e.expect(true, w, "seen")
	}
}

func TestLeaveForgetsTheWait(t *testing.T) {
	e := newEnv(t)
	fresh := &Wait[row]{Object: "a", Revision: 1, Deleted: true}
	e.Join(fresh)
	e.Leave(fresh)
	unseen := e.wait(Wait[row]{Object: "a", Revision: 1, Deleted: true}, 0)
	e.unreconciled["b"] = Unreconciled{}
	waiting := e.wait(Wait[row]{Object: "b", Revision: 1}, 5)
	e.NoteChange("b")
	for range 2 {
		e.Leave(unseen)
		e.Leave(waiting)
	}
	e.EndRound(9)
	require.Zero(e, e.Waiting())
	require.Empty(e, e.byKey)
	require.Empty(e, e.fresh)
	require.Zero(e, e.unseen.Len())
	require.Empty(e, e.changed)
	e.expect(false, unseen, "the caller has left")
}

// Without waits, a round does not even compute keys.
func TestRoundWithoutWaitsAllocatesNothing(t *testing.T) {
	e := newEnv(t)
	paused := e.NotePaused(func(row) bool { return true })
	require.Zero(e, testing.AllocsPerRun(100, func() {
		e.BeginRound(1)
		paused("a")
		e.NoteOperation("a", 1, false, true)
		e.EndRound(1)
	}))
}

func TestWaitsBeginAndEndOnAnyGoroutine(t *testing.T) {
	e := newEnv(t)
	const n = 100
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			w := &Wait[row]{Object: row('a' + rune(i%3)), Revision: statedb.Revision(i), Deleted: true}
			e.Join(w)
			defer e.Leave(w)
			if i%2 == 0 {
				<-w.Met()
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); wg.Wait() }()
	for {
		select {
		case <-done:
			require.Zero(e, e.Waiting())
			return
		default:
			e.BeginRound(n / 2)
			e.NoteOperation("a", n, false, true)
			e.EndRound(n)
		}
	}
}

// A wait for an attempt is over when the pause of its row begins, whether or not its change is read.
func TestWaitEndsWhenThePauseOfItsRowBegins(t *testing.T) {
	for name, c := range map[string]struct {
		wait Wait[row]
		u    *Unreconciled
		over bool
	}{
		"unread":                       {wait: Wait[row]{Revision: 5}, over: true},
		"an older version runs":        {wait: Wait[row]{Revision: 5}, u: &Unreconciled{Revision: 4}, over: true},
		"this version runs":            {wait: Wait[row]{Revision: 5}, u: &Unreconciled{Revision: 5}},
		"unread, for applied":          {wait: Wait[row]{Revision: 5, Milestone: progress.Applied}},
		"deleted, not read":            {wait: Wait[row]{Revision: 5, Deleted: true}},
		"deleted, counts as attempted": {wait: Wait[row]{Revision: 5, Deleted: true}, u: &Unreconciled{4, true, true}, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			c.wait.Object = "a"
			w := e.wait(c.wait, 3)
			e.expect(false, w, "before the pause")
			e.paused = "a"
			if c.u != nil {
				e.unreconciled["a"] = *c.u
			}
			e.CheckAll()
			e.BeginRound(3)
			e.expect(c.over, w, name)
		})
	}
}
