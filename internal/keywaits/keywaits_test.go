// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package keywaits

import (
	"fmt"
	"iter"
	"strconv"
	"sync"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/rows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row string

func (row) TableHeader() []string { return []string{"Name"} }
func (r row) TableRow() []string  { return []string{string(r)} }

// ranges is a mark with ranges of revisions, of which each has the first and the last one.
type ranges [][2]statedb.Revision

func (r ranges) Covers(revision statedb.Revision) bool {
	for _, one := range r {
		if revision >= one[0] && revision <= one[1] {
			return true
		}
	}
	return false
}

// env has waits, the states of the keys that are not reconciled, and the mark.
type env struct {
	*testing.T
	*Waits[row]
	unreconciled map[row]core.KeyInfo[row]
	covered      ranges
	// paused is the row that is paused.
	paused row
	// tables has the table at its revisions.
	db     *statedb.DB
	table  statedb.RWTable[row]
	tables map[statedb.Revision]statedb.ReadTxn
	// states and marks count how often the state of a key, and the mark, was asked for a wait.
	states, marks int
}

func (e *env) Covers(revision statedb.Revision) bool { e.marks++; return e.covered.Covers(revision) }

func (e *env) Covered() iter.Seq2[statedb.Revision, statedb.Revision] {
	return func(yield func(after, upTo statedb.Revision) bool) {
		for _, one := range e.covered {
			if !yield(one[0]-1, one[1]) {
				return
			}
		}
	}
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
	e := &env{
		T: t, unreconciled: map[row]core.KeyInfo[row]{},
		db: db, table: table, tables: map[statedb.Revision]statedb.ReadTxn{},
	}
	e.Waits = New(rows.New(db, table, rows.Writable[row]{}), func(key string) (core.KeyInfo[row], bool) {
		e.states++
		d, found := e.unreconciled[row(key)]
		return d, found
	}, func(r row) bool { return e.paused == r }, e)
	return e
}

// newEnvBeside returns an env of a table whose rows carry no status.
func newEnvBeside(t *testing.T) *env {
	e := newEnv(t)
	e.Waits.rows = rows.NewBeside(e.Waits.rows.DB, e.Waits.rows.Table)
	return e
}

// version is what a wait is for.
type version struct {
	Object    row
	Milestone progress.Milestone
	Revision  statedb.Revision
	Deleted   bool
}

// Look looks at the waits; seen is the revision of the table's state that was handed over.
func (e *env) Check(seen statedb.Revision) (more bool) {
	for next := e.table.Revision(e.db.ReadTxn()); next <= seen; next++ {
		e.tables[next] = e.db.ReadTxn()
		e.insert("other")
	}
	return e.Waits.Check(e.tables[seen])
}

func (e *env) insert(r row) {
	wtxn := e.db.WriteTxn(e.table)
	defer wtxn.Commit()
	_, _, err := e.table.Insert(wtxn, r)
	require.NoError(e, err)
}

// of returns a wait for an object.
func (e *env) of(object row, m progress.Milestone) *Wait[row] {
	return &Wait[row]{Milestone: m, Key: string(object), Get: func(txn statedb.ReadTxn) (row, statedb.Revision, <-chan struct{}, bool) {
		return e.rows.GetWatch(txn, object)
	}}
}

// join begins a wait.
func (e *env) join(v version) *Wait[row] {
	w := e.of(v.Object, v.Milestone)
	e.Begin(w)
	e.Join(w, v.Object, v.Revision, v.Deleted)
	return w
}

// wait begins a wait, and looks at it.
func (e *env) wait(v version, seen statedb.Revision) *Wait[row] {
	w := e.join(v)
	e.Check(seen)
	return w
}

// expect requires a wait to be over, or not.
func (e *env) expect(over bool, w *Wait[row], why string) {
	e.Helper()
	select {
	case <-w.met:
		require.True(e, over, why)
	default:
		require.False(e, over, why)
	}
}

func TestWaitIsOverAtItsMilestone(t *testing.T) {
	open := func(revision statedb.Revision, deleted, attempted bool) *core.KeyInfo[row] {
		return &core.KeyInfo[row]{Revision: revision, Deleted: deleted, Tried: attempted}
	}
	for name, c := range map[string]struct {
		wait version
		// The rest is true when the loop looks. pause: the pause of the row has begun since the loop looked last.
		u              *core.KeyInfo[row]
		seen           statedb.Revision
		has, pause     bool
		over, inserted bool
	}{
		"row, reconciled":                       {wait: version{Revision: 5}, seen: 5},
		"row, not attempted":                    {wait: version{Revision: 5}, u: open(5, false, false)},
		"row, attempted":                        {wait: version{Revision: 5}, u: open(5, false, true), over: true},
		"row, an older version attempted":       {wait: version{Revision: 5}, u: open(4, false, true)},
		"row, a later version attempted":        {wait: version{Revision: 5}, u: open(6, false, true), over: true},
		"deleted, not seen":                     {wait: version{Revision: 5, Deleted: true}, seen: 4},
		"deleted, seen":                         {wait: version{Revision: 5, Deleted: true}, seen: 5, over: true},
		"deleted, unreconciled":                 {wait: version{Revision: 5, Deleted: true}, u: open(5, true, false), seen: 5},
		"deleted, attempted":                    {wait: version{Revision: 5, Deleted: true}, u: open(5, true, true), seen: 5, over: true},
		"deleted, attempted, for applied":       {wait: version{Revision: 5, Deleted: true, Milestone: progress.Applied}, u: open(5, true, true), seen: 5},
		"deleted, an older row is unreconciled": {wait: version{Revision: 5, Deleted: true}, u: open(4, false, true), seen: 5},
		"deleted, back":                         {wait: version{Revision: 5, Deleted: true}, has: true, seen: 5, over: true, inserted: true},
		"deleted, inserted again":               {wait: version{Revision: 5, Deleted: true}, u: open(6, false, false), seen: 5, over: true, inserted: true},
		"paused, unread":                        {wait: version{Revision: 5}, pause: true, over: true},
		"paused, an older version runs":         {wait: version{Revision: 5}, pause: true, u: open(4, false, false), over: true},
		"paused, this version runs":             {wait: version{Revision: 5}, pause: true, u: open(5, false, false)},
		"paused, unread, for applied":           {wait: version{Revision: 5, Milestone: progress.Applied}, pause: true},
		"paused, deleted, not read":             {wait: version{Revision: 5, Deleted: true}, pause: true, seen: 3},
		"paused, deleted, attempted":            {wait: version{Revision: 5, Deleted: true}, pause: true, u: open(4, true, true), seen: 3, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			c.wait.Object = "a"
			if c.has {
				e.insert("a")
			}
			w := e.join(c.wait)
			if c.pause {
				e.Check(c.seen)
				e.expect(false, w, "before the pause")
				e.paused = "a"
				e.NotePause()
			}
			if c.u != nil {
				e.unreconciled["a"] = *c.u
			}
			e.Check(c.seen)
			e.expect(c.over, w, name)
			if c.over {
				require.Equal(e, c.inserted, !e.IsOver(w))
			}
			e.Leave(w)
			require.Zero(e, e.Waiting())
			if !c.over {
				e.expect(false, w, "the caller has left")
			}
		})
	}
}

func TestWaitIsCheckedWhenItsKeyChanges(t *testing.T) {
	e := newEnv(t)
	e.unreconciled["a"], e.unreconciled["b"] = core.KeyInfo[row]{Revision: 3}, core.KeyInfo[row]{Revision: 3, Deleted: true}
	a, b := e.wait(version{Object: "a", Revision: 3}, 3), e.wait(version{Object: "b", Revision: 4, Deleted: true}, 3)

	e.unreconciled["a"] = core.KeyInfo[row]{Revision: 3, Tried: true}
	e.Check(3)
	e.expect(false, a, "nothing happened to its key")
	e.NoteChange("a", 0)
	e.expect(false, a, "the loop has not looked")
	e.Check(3)
	e.expect(true, a, "its state changed")

	delete(e.unreconciled, "b")
	e.NoteOperation("b", 3, false, true)
	e.Check(3)
	e.expect(false, b, "an update of an older row has ended")
	e.NoteOperation("b", 3, true, true)
	e.Check(3)
	e.expect(true, b, "its deletion has ended")
	require.True(e, e.IsOver(b))
}

func TestOperationOnALaterVersionEndsAWait(t *testing.T) {
	for _, m := range []progress.Milestone{progress.Attempted, progress.Applied} {
		e := newEnv(t)
		// The key is written again during each operation.
		e.unreconciled["a"] = core.KeyInfo[row]{Revision: 9}
		w := e.wait(version{Object: "a", Revision: 3, Milestone: m}, 9)
		e.NoteOperation("a", 2, false, true)
		e.Check(9)
		e.expect(false, w, "an older version")
		e.NoteOperation("a", 4, false, false)
		e.Check(9)
		e.expect(m == progress.Attempted, w, "a later version failed")
		e.NoteOperation("a", 5, false, true)
		e.Check(9)
		e.expect(true, w, "a later version was applied")
	}
}

// The deletion is not carried out, because the object is back. What comes next is in a later state of the table.
func TestRowThatReplacesADeletionProlongsTheWait(t *testing.T) {
	e := newEnv(t)
	w := e.of("a", progress.Applied)
	e.Begin(w)
	e.NoteChange("a", 7)
	e.Join(w, "a", 5, true)
	e.Check(6)
	e.expect(false, w, "a later row was seen")
	e.NoteChange("a", 9)
	e.Check(8)
	e.expect(false, w, "an even later row was seen")
	e.Check(9)
	e.expect(true, w, "all later deletions were handed over")
	require.True(e, e.IsOver(w))
}

func TestLeaveForgetsTheWait(t *testing.T) {
	e := newEnvBeside(t)
	unseen := e.wait(version{Object: "a", Revision: 7, Deleted: true}, 5)
	uncovered := e.wait(version{Object: "a", Revision: 1}, 5)
	e.unreconciled["b"] = core.KeyInfo[row]{}
	waiting := e.wait(version{Object: "b", Revision: 1}, 5)
	e.NoteChange("b", 0)
	all := []*Wait[row]{unseen, uncovered, waiting, e.join(version{Object: "a", Revision: 1, Deleted: true}), {}}
	for range 2 {
		for _, w := range all {
			e.Leave(w)
		}
	}
	e.Check(9)
	require.Zero(e, e.Waiting())
	require.Empty(e, e.byKey)
	require.Zero(e, e.due.Len()+e.parked.Len())
	e.expect(false, unseen, "the caller has left")
}

// An operation between two versions of a wait counts, though the key is written faster than the loop looks.
func TestOperationBetweenTwoVersionsEndsAWait(t *testing.T) {
	for _, m := range []progress.Milestone{progress.Attempted, progress.Applied} {
		for _, deleted := range []bool{false, true} {
			for _, e := range []*env{newEnv(t), newEnvBeside(t)} {
				e.unreconciled["a"] = core.KeyInfo[row]{Revision: 4}
				w := e.wait(version{Object: "a", Revision: 3, Milestone: m}, 3)
				e.NoteOperation("a", 3, false, true)
				e.Join(w, "a", 4, deleted)
				e.Check(4)
				e.expect(true, w, "its first version was applied, and replaced since")
				require.True(e, e.IsOver(w))
			}
		}
	}
}

// The object was inserted, its update began, and it was deleted again before the caller looked for it.
func TestDeletionBeforeTheLookUpDoesNotEndAWait(t *testing.T) {
	e := newEnv(t)
	w := e.of("a", progress.Applied)
	e.Begin(w)
	e.NoteOperation("a", 3, true, true)
	e.unreconciled["a"] = core.KeyInfo[row]{Revision: 4}
	e.Join(w, "a", 5, true)
	e.Check(5)
	e.expect(false, w, "the update runs")
	e.NoteOperation("a", 5, true, true)
	e.Check(5)
	e.expect(true, w, "its deletion has ended")
}

// many is more waits than several looks visit.
const many = 5*Limit + 7

func name(i int) row { return row(strconv.Itoa(i)) }

func TestMarkEndsTheWaitsInItsRangesOnly(t *testing.T) {
	e := newEnvBeside(t)
	var waits []*Wait[row]
	for i := range 40 {
		waits = append(waits, e.join(version{Object: name(i), Revision: statedb.Revision(i + 1), Deleted: i%10 == 9}))
	}
	e.Check(0)
	for _, e.covered = range []ranges{{}, {{1, 4}}, {{1, 4}, {12, 15}}, {{1, 4}, {12, 18}, {22, 22}}, {{1, 25}}, {{1, 25}, {31, 40}}} {
		require.False(e, e.Check(0))
		for i, w := range waits {
			e.expect(i%10 != 9 && e.covered.Covers(statedb.Revision(i+1)), w, fmt.Sprint(i, e.covered))
		}
	}
}

func TestOneLookVisitsFewOfManyWaits(t *testing.T) {
	for what, c := range map[string]struct {
		join    func(i int) version
		happens func(e *env)
	}{
		"an operation on their key ends": {func(int) version { return version{Object: "a", Revision: 1} }, func(e *env) {
			e.NoteOperation("a", 2, false, true)
			e.unreconciled["a"] = core.KeyInfo[row]{Revision: 3}
		}},
		"their keys are paused": {func(i int) version { return version{Object: name(i), Revision: 1} }, func(e *env) {
			for i := range many {
				e.unreconciled[name(i)] = core.KeyInfo[row]{Revision: 1, Tried: true}
				e.NoteChange(name(i), 0)
			}
		}},
		"the mark passes them": {func(i int) version {
			return version{Object: name(i), Revision: statedb.Revision(i + 1)}
		}, func(e *env) { e.covered = ranges{{1, many}} }},
		"they are observed": {func(i int) version {
			return version{Object: name(i), Revision: 5, Deleted: true}
		}, func(*env) {}},
	} {
		t.Run(what, func(t *testing.T) {
			e := newEnvBeside(t)
			var waits []*Wait[row]
			for i := range many {
				waits = append(waits, e.join(c.join(i)))
			}
			for e.Check(4) {
			}
			c.happens(e)
			for looks, more := 0, true; more; looks++ {
				e.states, e.marks = 0, 0
				more = e.Check(5)
				require.LessOrEqual(e, e.states, Limit)
				require.LessOrEqual(e, e.marks, Limit)
				require.Less(e, looks, 2*many/Limit)
			}
			for _, w := range waits {
				e.expect(true, w, what)
			}
		})
	}
}

func TestKeyWithManyWaitsHoldsUpNoOtherKey(t *testing.T) {
	e := newEnv(t)
	var hot []*Wait[row]
	for range many {
		hot = append(hot, e.join(version{Object: "hot", Revision: 1}))
	}
	e.Check(0)
	w := e.join(version{Object: "a", Revision: 1, Deleted: true})
	for range 2 {
		require.True(e, e.Check(1))
		for _, w := range hot {
			e.Join(w, "hot", 1, false)
		}
	}
	e.expect(true, w, "the loop took the keys in turn")
}

// Without waits, a round does not even compute keys.
func TestRoundWithoutWaitsAllocatesNothing(t *testing.T) {
	e := newEnv(t)
	require.Zero(e, testing.AllocsPerRun(100, func() {
		e.NoteChange("a", 0)
		e.NoteOperation("a", 1, false, true)
		e.Check(1)
	}))
}

func TestWaitsBeginAndEndOnAnyGoroutine(t *testing.T) {
	e := newEnv(t)
	const n = 100
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			object := row('a' + rune(i%3))
			w := e.of(object, 0)
			e.Begin(w)
			met := e.Join(w, object, statedb.Revision(i), true)
			defer e.Leave(w)
			if i%2 == 0 {
				<-met
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
			e.Check(n / 2)
			e.NoteOperation("a", n, false, true)
			e.Check(n)
		}
	}
}
