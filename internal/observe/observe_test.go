// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe_test

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

func unset() status.Status { return status.Status{} }

func TestSnapshotIsReadToItsEndBeforeTheNext(t *testing.T) {
	e := newEnv(t, 2)
	e.put(status.Pending, ids(1, 5)...)
	require.Equal(e, []int{1, 2}, e.round())
	require.Equal(e, statedb.Revision(2), e.Revision())
	e.put(status.Pending, 3, 6)
	require.Equal(e, []int{3, 4}, e.round())
	require.Equal(e, []int{5}, e.round(), "a round never has changes of two snapshots")
	require.Equal(e, statedb.Revision(5), e.Revision())
	require.Equal(e, []int{3, 6}, e.round())
	require.Equal(e, []string{"took 5 after 0", "took 7 after 5"}, e.hooks())
}

// A call of Observe reads a bounded number of changes, so that due keys and the other cursor are
// not delayed.
func TestLongSnapshotIsReadInSeveralCalls(t *testing.T) {
	e := newEnv(t, 2)
	e.put(status.Done, ids(1, 20_000)...)
	e.put(status.Pending, 20_001)
	planned, more := e.begin()
	require.Empty(e, planned)
	require.True(e, more)
	require.True(e, e.Behind())
	e.end(0, 0)
	require.Equal(e, []int{20_001}, e.round())
	require.False(e, e.Behind())
}

func TestRowInAWindowIsUnreconciledSinceItsWait(t *testing.T) {
	e := newEnv(t, 10)
	e.put(status.Pending, 1, 2, 3)
	e.since = 2
	e.begin()
	var since []uint64
	for i := range e.items {
		since = append(since, e.items[i].Since())
	}
	require.Equal(e, []uint64{1, 2, 2}, since)
	e.end(3, 0)
}

func TestForgottenObjectIsReported(t *testing.T) {
	e := newEnv(t, 10)
	e.put(status.Pending, 1)
	e.begin()
	launched := slices.Clone(e.items)
	e.delete(1)
	e.begin()
	require.NotContains(e, e.hooks(), "forgotten 1", "its operation is in flight")
	e.core.Recall(e.now, &launched[0])
	e.put(unset, 1)
	e.begin()
	require.Contains(e, e.hooks(), "forgotten 1")
	e.end(0, 0)
}

// A version of an older snapshot is stale only if another operation may have run since, or the
// target is slow.
func TestVersionIsStaleOnlyAfterOtherOperations(t *testing.T) {
	e := newEnv(t, 2)
	e.put(status.Pending, ids(1, 4)...)
	e.delete(3)
	e.begin()
	require.False(e, e.Stale(&e.items[0]), "the item is from the snapshot of this round")
	e.NoteOther()
	require.False(e, e.Stale(&e.items[0]))
	e.end(2, 0)
	e.put(status.Pending, 5)
	e.begin()
	require.True(e, e.Stale(&e.items[0]), "another operation was run since")
	e.end(2, 0)
	e.put(status.Pending, ids(6, 9)...)
	require.Equal(e, []int{5, 6}, e.round())
	e.delete(8)
	e.begin()
	require.False(e, e.Stale(&e.items[0]))
	e.end(2, 0)
}

// The version of a key that has waited is the row once all changes have been read, unless the row was written
// without asking for an operation: then the core knows only that there is a later version.
func TestVersionThatWaitedIsStaleUntilAllIsRead(t *testing.T) {
	for _, beside := range []bool{true, false} {
		for _, written := range []int{0, 1, 8} {
			t.Run(fmt.Sprintf("beside %t, %d written", beside, written), func(t *testing.T) {
				e := newEnv(t, 5)
				if beside {
					e = newEnvBeside(t, 5)
				}
				e.put(status.Pending, 1)
				e.begin()
				it, failure := &e.items[0], "no"
				e.core.Settle(e.now, it, core.Outcome[*row]{
					Kind: core.Failed, Text: &failure, Object: it.Obj, NewRevision: it.Revision, Delay: time.Second,
				})

				e.now += time.Second
				e.put(status.Pending, ids(2, 1+written)...)
				if written == 1 && !beside {
					e.put(func() status.Status { return status.Error(errors.New("no")) }, 1)
				}
				e.begin()
				waited := slices.IndexFunc(e.items, func(it core.Operation[*row]) bool { return it.Turn.Waited })
				require.Equal(e, written == 8 || written == 1 && !beside, e.Stale(&e.items[waited]))
			})
		}
	}
}

// A deletion is not run with a lower revision than the operation before it.
func TestDeletionDoesNotGoBackInRevision(t *testing.T) {
	e := newEnv(t, 1)
	e.put(status.Pending, 1, 2)
	e.delete(2)
	e.begin()
	txn := e.db.ReadTxn()
	require.Equal(e, statedb.Revision(2), e.CallRevision(2, true, txn))
	require.Equal(e, statedb.Revision(3), e.CallRevision(3, false, txn))
	require.Equal(e, statedb.Revision(3), e.CallRevision(2, true, txn))
	require.Equal(e, statedb.Revision(2), e.CallRevision(2, false, txn))
	require.Equal(e, statedb.Revision(4), e.CallRevision(4, true, txn))
	e.end(1, 0)
}

// row is a row of the observed table.
type row struct {
	id     uint64
	status status.Status
}

func (*row) TableHeader() []string { return []string{"ID"} }
func (r *row) TableRow() []string  { return []string{fmt.Sprint(r.id)} }

var rowID = statedb.Index[*row, uint64]{
	Name:       "id",
	FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.Uint64(r.id)) },
	FromKey:    index.Uint64,
	Unique:     true,
}

// env is an Observer of a table, and a core whose rounds have at most size items.
type env struct {
	*testing.T
	*observe.Observer[*row]
	db    *statedb.DB
	table statedb.RWTable[*row]
	core  *core.Core[*row]
	size  int
	now   time.Duration
	// target is the argument of UpdateCatchUp.
	target observe.Target
	// since is the highest revision that Since returns; 0 if there is no window.
	since statedb.Revision
	// snapshot is the revision of the main cursor's snapshot.
	snapshot statedb.Revision
	// called has the hooks that were called, with their objects.
	called []string
	// txn is the transaction of the last round, items its operations.
	txn   statedb.ReadTxn
	items []core.Operation[*row]
}

func newEnv(t *testing.T, size int) *env {
	return newEnvOf(t, size, func(db *statedb.DB, table statedb.RWTable[*row]) *rows.Rows[*row] {
		return rows.New(db, table, rows.Writable[*row]{GetStatus: func(r *row) status.Status { return r.status }})
	})
}

// newEnvBeside is newEnv for rows without a status.
func newEnvBeside(t *testing.T, size int) *env {
	return newEnvOf(t, size, func(db *statedb.DB, table statedb.RWTable[*row]) *rows.Rows[*row] {
		return rows.NewBeside(db, table)
	})
}

func newEnvOf(t *testing.T, size int, rowsOf func(*statedb.DB, statedb.RWTable[*row]) *rows.Rows[*row]) *env {
	db := statedb.New()
	table, err := statedb.NewTable(db, "rows", rowID)
	require.NoError(t, err)
	e := &env{T: t, db: db, table: table, size: size, target: observe.Target{Workers: 1}}
	of := rowsOf(db, table)
	e.core = core.New(core.Config[*row]{
		KeyOf: func(r *row) []byte { return of.Key(r) }, SamePending: of.SamePending,
		Limits: core.Limits{RoundSize: size, MinBackoff: time.Second, MaxBackoff: time.Minute},
	})
	note := func(hook string) func(*row) {
		return func(r *row) { e.called = append(e.called, fmt.Sprint(hook, " ", r.id)) }
	}
	e.Observer = observe.New(observe.Config[*row]{
		Rows: of, Core: e.core, Waits: e,
		Hooks: observe.Hooks[*row]{
			Deletion: func(r *row, back statedb.Revision) {
				note("deleted")(r)
				if back > 0 {
					note("back")(r)
				}
			},
			Forgotten:  func(r *row, _ statedb.Revision) { note("forgotten")(r) },
			Seen:       func(*row) {},
			FirstUnset: func(r *row, _ statedb.Revision) { note("unset")(r) },
		},
	})
	require.NoError(t, e.Start(t.Context()))
	t.Cleanup(e.Stop)
	return e
}

func (e *env) HasWindows() bool { return e.since > 0 }

func (e *env) Since(_ uint64, revision statedb.Revision) statedb.Revision {
	return min(e.since, revision)
}

func (e *env) NoteSnapshot(last, snapshot statedb.Revision) {
	e.called = append(e.called, fmt.Sprintf("took %d after %d", snapshot, last))
	e.snapshot = snapshot
}

// put writes rows with a status, in one transaction.
func (e *env) put(s func() status.Status, ids ...uint64) {
	wtxn := e.db.WriteTxn(e.table)
	defer wtxn.Commit()
	for _, id := range ids {
		_, _, err := e.table.Insert(wtxn, &row{id, s()})
		require.NoError(e, err)
	}
}

func (e *env) delete(ids ...uint64) {
	wtxn := e.db.WriteTxn(e.table)
	defer wtxn.Commit()
	for _, id := range ids {
		_, _, err := e.table.Delete(wtxn, &row{id: id})
		require.NoError(e, err)
	}
}

// begin begins a round, and returns the IDs of the objects of its operations, negative for deletions. more
// reports that the channel of End is closed.
func (e *env) begin() (planned []int, more bool) {
	e.UpdateCatchUp(e.now, e.target)
	e.core.Begin(e.now, e.size, e.CatchingUp())
	e.txn = e.db.ReadTxn()
	e.Begin(e.txn)
	e.items = nil
	for op := (core.Operation[*row]{}); e.core.Next(&op, e.Observer); op = (core.Operation[*row]{}) {
		id := int(op.Obj.id)
		if op.Deleted {
			id = -id
		}
		planned, e.items = append(planned, id), append(e.items, op)
	}
	watch := e.End(e.now)
	select {
	case <-watch:
		more = true
	default:
	}
	return planned, more
}

// end ends the round: its first ran items are done, each after the time took. The others are taken
// back.
func (e *env) end(ran int, took time.Duration) {
	for i := len(e.items) - 1; i >= ran; i-- {
		e.core.Recall(e.now, &e.items[i])
	}
	for i := range e.items[:ran] {
		it := &e.items[i]
		e.CallRevision(it.Revision, it.Deleted, e.txn)
		e.now += took
		e.NoteTook(took)
		e.core.Settle(e.now, it, core.Outcome[*row]{Kind: core.Done, Object: it.Obj, NewRevision: it.Revision})
	}
}

// round runs a round in which everything is done in no time, and returns its plan.
func (e *env) round() []int {
	planned, _ := e.begin()
	e.end(len(planned), 0)
	return planned
}

// roundsUntilCatchingUp runs rounds against a slow target until there is a catch-up cursor, and returns what they
// ran.
func (e *env) roundsUntilCatchingUp() (ran []int) {
	for !e.CatchingUp() {
		planned, _ := e.begin()
		ran = append(ran, planned...)
		e.end(len(planned), slow)
	}
	return ran
}

// rounds runs rounds, in which each object takes a time, until nothing is planned. It returns all
// their plans.
func (e *env) rounds(took time.Duration) (planned []int) {
	for {
		ids, _ := e.begin()
		e.end(len(ids), took)
		if len(ids) == 0 && !e.Behind() {
			return planned
		}
		planned = append(planned, ids...)
	}
}

// revision returns the revision of the table.
func (e *env) revision() statedb.Revision { return e.table.Revision(e.db.ReadTxn()) }

// hooks returns the hooks that were called since the last call.
func (e *env) hooks() []string {
	called := e.called
	e.called = nil
	return called
}

// list returns the numbers of a range, including both ends.
func list(from, to int) []int {
	var all []int
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}

func ids(from, to int) []uint64 {
	var all []uint64
	for i := range slices.Values(list(from, to)) {
		all = append(all, uint64(i))
	}
	return all
}

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
	_, ahead := e.Read()
	require.Equal(e, []observe.Range{{40, 43}}, ahead)
	require.Equal(e, 2, e.Skippable())
	// The rows show what is done.
	e.put(status.Done, 41, 42)

	ran = append(append(ran, planned...), e.rounds(slow)...)
	require.False(e, e.CatchingUp())
	require.Zero(e, e.Skippable())
	slices.Sort(ran)
	require.Equal(e, append(append([]int{-40}, list(1, 39)...), 41, 42), ran, "each change is handed over once, and so is the deletion")
	require.Equal(e, e.revision(), e.Revision())
	_, ahead = e.Read()
	require.Empty(e, ahead)
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

// What the catch-up cursor has no room for is left to the main cursor.
func TestCatchUpCursorLeavesOutWhatDoesNotFit(t *testing.T) {
	e, _ := behind(t, 2, 40)
	e.put(status.Pending, ids(101, 400)...)
	for range 5 {
		planned, _ := e.begin()
		e.end(len(planned), slow)
	}
	_, ahead := e.Read()
	require.Empty(e, ahead)
	e.put(status.Pending, 500)
	planned, _ := e.begin()
	require.Contains(e, planned, 500)
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
			before: func(e *env) { e.delete(100) },
			after:  func(e *env) { e.put(status.Pending, 100) }, planned: 100, never: -100,
		},
		"a deletion that waits for room, by an insertion": {after: func(e *env) {
			e.delete(ids(101, 110)...)
			e.begin()
			e.end(0, 0)
			e.put(status.Pending, 110)
		}, planned: 110, never: -110},
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
