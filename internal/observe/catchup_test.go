// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe_test

import (
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

const (
	millisecond = time.Millisecond
	// slow is how long an object of a slow target takes.
	slow = 5 * millisecond
)

// behind returns an env with n pending rows. A slow target has run the first of them until there
// was a catch-up cursor.
func behind(t *testing.T, size, n int) (e *env, ran []int) {
	e = newEnv(t, size)
	e.put(status.Pending, ids(1, n)...)
	return e, e.roundsUntilCatchingUp()
}

func TestCatchUpCursorBeginsOnlyForASlowTarget(t *testing.T) {
	for name, c := range map[string]struct {
		took   []time.Duration
		passes time.Duration
		target observe.Target
		begins bool
	}{
		"slow":                               {took: []time.Duration{slow, slow, slow}, begins: true},
		"fast":                               {took: []time.Duration{50_000, 50_000}, passes: time.Minute},
		"fast without the longest call":      {took: []time.Duration{51_000, 51_000, 51_000}, passes: time.Minute},
		"slow even without the longest call": {took: []time.Duration{77_000, 77_000, 77_000}, passes: time.Minute, begins: true},
		"one long pause":                     {took: []time.Duration{1000, 1000, time.Minute}},
		"fast enough with two workers":       {took: []time.Duration{99_000, 99_000, 99_000}, passes: time.Minute, target: observe.Target{Workers: 2}},
		"not behind long enough":             {took: []time.Duration{millisecond, millisecond}, passes: 7 * millisecond},
		"behind long enough":                 {took: []time.Duration{millisecond, millisecond}, passes: 8 * millisecond, begins: true},
		"nothing has run":                    {passes: time.Minute},
		"a slow limiter":                     {passes: time.Minute, target: observe.Target{Least: 51_000}, begins: true},
		"a fast limiter":                     {passes: time.Minute, target: observe.Target{Least: 50_000}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, 1)
			e.put(status.Pending, ids(1, 10)...)
			e.target.Workers, e.target.Least = max(1, c.target.Workers), c.target.Least
			e.begin()
			e.end(0, 0)
			require.True(e, e.Behind())
			for _, took := range c.took {
				e.NoteTook(took)
				e.now += took
			}
			e.now += c.passes
			e.UpdateCatchUp(e.now, e.target)
			require.Equal(e, c.begins, e.CatchingUp())
		})
	}
}

func TestCatchUpCursorReadsNewChangesUntilTheBacklogEnds(t *testing.T) {
	e, ran := behind(t, 4, 40)
	require.Less(e, len(ran), 20)
	e.put(status.Pending, 41, 42)
	e.delete(40)
	planned, _ := e.begin()
	require.Subset(e, planned, []int{41, 42, -40}, "ahead of the backlog")
	e.end(len(planned), slow)
	from, upTo := e.CaughtUp()
	require.Equal(e, []statedb.Revision{40, 43}, []statedb.Revision{from, upTo})
	require.Equal(e, 2, e.Skippable())
	// The rows show what is done.
	e.put(status.Done, 41, 42)

	ran = append(append(ran, planned...), e.rounds(slow)...)
	require.False(e, e.CatchingUp())
	require.Zero(e, e.Skippable())
	slices.Sort(ran)
	require.Equal(e, append(append([]int{-40}, list(1, 39)...), 41, 42), ran, "each change is handed over once, and so is the deletion")
	require.Equal(e, e.revision(), e.Revision())
	from, upTo = e.CaughtUp()
	require.Zero(e, from+upTo)
}

// A key that is inserted and deleted again has its first deletion in one state only. The table may change faster than
// deletions are handed over: those of the state are no more for that.
func TestDeletionsOfOneStateAreHandedOverBeforeThoseOfTheNext(t *testing.T) {
	e, _ := behind(t, 8, 200)
	e.delete(ids(100, 130)...)
	state, seen := e.revision(), map[int]int{}
	for again := uint64(130); ; again-- {
		require.Greater(e, again, uint64(100), "rounds")
		planned, _ := e.begin()
		for _, id := range planned {
			seen[id]++
		}
		e.end(len(planned), slow)
		if over := e.HandedOver(true); over != nil {
			require.Equal(e, state, e.table.Revision(over))
			break
		}
		e.put(status.Pending, again)
		e.delete(again, 2*again-60, 2*again-61, 400-again)
	}
	require.Nil(e, e.HandedOver(true), "it is not kept")
	for id := 100; id <= 130; id++ {
		require.Positive(e, seen[-id], "deletion of %d", id)
	}
	require.True(e, e.CatchingUp())
	e.rounds(slow)
	require.Equal(e, e.revision(), e.table.Revision(e.HandedOver(true)))
}

// lateTable is a table whose changes may come late: a commit shows in a transaction before it closes the channel.
type lateTable struct {
	statedb.RWTable[*row]
	late *bool
}

func (l lateTable) Changes(wtxn statedb.WriteTxn) (statedb.ChangeIterator[*row], error) {
	changes, err := l.RWTable.Changes(wtxn)
	return lateChanges{changes, l.late}, err
}

type lateChanges struct {
	statedb.ChangeIterator[*row]
	late *bool
}

func (l lateChanges) Next(txn statedb.ReadTxn) (iter.Seq2[statedb.Change[*row], statedb.Revision], <-chan struct{}) {
	if *l.late {
		return func(func(statedb.Change[*row], statedb.Revision) bool) {}, make(chan struct{})
	}
	return l.ChangeIterator.Next(txn)
}

func TestStateWhoseChangesComeLateIsNotHandedOver(t *testing.T) {
	var late bool
	e := newEnvOf(t, 4, func(db *statedb.DB, table statedb.RWTable[*row]) *rows.Rows[*row] {
		return rows.NewBeside(db, lateTable{table, &late})
	})
	e.put(status.Pending, ids(1, 200)...)
	e.roundsUntilCatchingUp()
	for range 3 {
		planned, _ := e.begin()
		e.end(len(planned), slow)
	}
	require.NotNil(e, e.HandedOver(true), "there is no deletion")
	e.delete(200)
	late = true
	planned, _ := e.begin()
	require.NotContains(e, planned, -200)
	require.Nil(e, e.HandedOver(true), "the deletion is not read")
	e.end(len(planned), slow)
	late = false
	planned, _ = e.begin()
	require.Contains(e, planned, -200)
	require.NotNil(e, e.HandedOver(true))
}

// Another reconciler writes rows again before the catch-up cursor reads them. So a part of the newest range that
// was read says nothing of the rows that were in it: waits go by the snapshots of the main cursor.
func TestRevisionIsNotAboveTheSnapshotUntilAllIsRead(t *testing.T) {
	for n := range 12 {
		e, _ := behind(t, 1, 4+n)
		e.put(status.Pending, ids(101, 300)...)
		for range 40 {
			planned, _ := e.begin()
			e.end(len(planned), slow)
			require.LessOrEqual(e, e.Revision(), e.snapshot, "%d rows", 4+n)
		}
	}
}

// What was left out is in no snapshot of its time. The next snapshot has it, in the version of then.
func TestWhatWasLeftOutIsReadInTheVersionOfTheNextSnapshot(t *testing.T) {
	e := newEnvBeside(t, 2)
	e.put(status.Pending, ids(1, 20)...)
	e.roundsUntilCatchingUp()
	seen := map[int]int{}
	for range 10 {
		// Faster than the catch-up cursor reads.
		e.put(status.Pending, ids(101, 110)...)
		planned, _ := e.begin()
		for _, id := range planned {
			seen[id]++
		}
		e.end(len(planned), slow)
	}
	upTo, ranges := e.Read()
	require.NotEmpty(e, ranges)
	require.Less(e, upTo, ranges[0].After)
	for _, id := range e.rounds(slow) {
		seen[id]++
	}
	for id := 101; id <= 110; id++ {
		require.Positive(e, seen[id], "row %d", id)
	}
	require.Equal(e, e.revision(), e.Revision())
}

// Main's snapshot has a version that another one has overtaken since, and no row shows which were applied.
func TestWhatWasOvertakenIsNotHandedOver(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(e *env)
		// planned is what is handed over once, never what is not handed over.
		planned, never int
	}{
		"a deletion in the snapshot, by an insertion": {
			before: func(e *env) { e.delete(100) }, after: func(e *env) { e.put(status.Pending, 100) }, planned: 100, never: -100,
		},
		"a deletion that waits for room, by an insertion": {
			after: func(e *env) { e.delete(ids(101, 110)...); e.begin(); e.end(0, 0); e.put(status.Pending, 110) }, planned: 110, never: -110,
		},
		"a version in the snapshot, by a later one": {after: func(e *env) { e.put(status.Pending, 40) }, planned: 40},
		"a version that neither cursor has read, by its retry": {
			after: func(e *env) { e.put(status.Pending, 100); e.NoteApplied(&row{id: 100}, e.revision()) }, planned: 39, never: 100,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvBeside(t, 4)
			e.put(status.Pending, ids(100, 110)...)
			e.rounds(0)
			e.put(status.Pending, ids(1, 40)...)
			if c.before != nil {
				c.before(e)
			}
			e.roundsUntilCatchingUp()
			c.after(e)
			planned := e.rounds(slow)
			require.NotContains(t, planned, c.never)
			times := slices.DeleteFunc(planned, func(id int) bool { return id != c.planned })
			require.Len(t, times, 1)
		})
	}
}

// A version waits for room, and a later one of its object is applied meanwhile.
func TestVersionThatWaitedIsNotHandedOverAfterALaterOne(t *testing.T) {
	e := newEnvBeside(t, 2)
	e.put(status.Pending, ids(1, 4)...)
	e.begin()
	e.put(status.Pending, 3)
	e.NoteApplied(&row{id: 3}, e.revision())
	e.end(2, 0)
	require.NotContains(t, e.rounds(0), 3)
}

// coroutines returns how many goroutines are coroutines of iter.Pull2.
func coroutines() int {
	b := make([]byte, 1<<22)
	return strings.Count(string(b[:runtime.Stack(b, true)]), "[coroutine")
}

// The main cursor reads 20,000 rows of its snapshot a call. If the last row of the unread range is the last one
// of a call, everything is read, and the catch-up cursor ends: then nothing of the snapshot is kept.
func TestNothingOfTheSnapshotIsKeptAfterTheCatchUpCursor(t *testing.T) {
	const pending, stride = 6, 20_000
	before := coroutines()
	// With rounds of one, the call that hands over the last pending row reads stride-1 others.
	for _, others := range []int{stride, stride - 1 + stride, stride + stride} {
		e := newEnv(t, 1)
		e.put(status.Pending, ids(1, pending)...)
		e.put(status.Done, ids(pending+1, pending+others)...)
		began := false
		for {
			planned, _ := e.begin()
			began = began || e.CatchingUp()
			e.end(len(planned), slow)
			for _, id := range planned {
				e.put(status.Done, uint64(id))
			}
			if len(planned) == 0 && !e.Behind() {
				break
			}
		}
		require.True(t, began)
		require.False(t, e.CatchingUp())
		require.Equal(t, e.revision(), e.Revision())
		require.Equal(t, before, coroutines(), "others: %d", others)
	}
}
