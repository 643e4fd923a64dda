// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

type row struct {
	key, value string
	own, other status.Status
}

func (*row) TableHeader() []string { return []string{"Key"} }
func (r *row) TableRow() []string  { return []string{r.key} }

type world struct {
	t      *testing.T
	rows   *rows.Rows[*row]
	ledger *InRows[*row]
}

func newWorld(t *testing.T, merge func(current, reconciled *row) *row) *world {
	db := statedb.New()
	w := &world{t: t, rows: rows.New(db, newTable(t, db, "rows"), rows.Writable[*row]{
		Clone:     func(r *row) *row { c := *r; return &c },
		GetStatus: func(r *row) status.Status { return r.own },
		SetStatus: func(r *row, s status.Status) *row { r.own = s; return r },
		Merge:     merge,
	})}
	w.ledger = NewInRows(w.rows, slog.New(slog.DiscardHandler), func() time.Duration { return 0 })
	return w
}

// put inserts a row, and returns an operation on it that returned err.
func (w *world) put(r *row, err error) core.Operation[*row] {
	wtxn := w.rows.DB.WriteTxn(w.rows.Table)
	_, _, insertErr := w.rows.Writable.Table.Insert(wtxn, r)
	require.NoError(w.t, insertErr)
	revision := w.rows.Table.Revision(wtxn)
	wtxn.Commit()
	return core.Operation[*row]{
		Row: r, RowRevision: revision, Run: core.Run{Err: err}, Outcome: core.Outcome[*row]{Object: w.rows.Writable.Clone(r)},
	}
}

// change changes a row as another writer does, even while an operation on it runs.
func (w *world) change(key string, change func(r *row)) {
	wtxn := w.rows.DB.WriteTxn(w.rows.Table)
	defer wtxn.Commit()
	now, _, _ := w.rows.Get(wtxn, &row{key: key})
	now = w.rows.Writable.Clone(now)
	change(now)
	_, _, _ = w.rows.Writable.Table.Insert(wtxn, now)
}

func (w *world) write(ops ...core.Operation[*row]) ([]core.Operation[*row], Commit) {
	c := w.ledger.Write(ops, 0)
	return ops, c
}

func (w *world) get(key string) *row {
	r, _, found := w.rows.Get(w.rows.DB.ReadTxn(), &row{key: key})
	require.True(w.t, found)
	return r
}

func TestOutcomesOfABatchAreWrittenInOneTransaction(t *testing.T) {
	w := newWorld(t, nil)
	ops := []core.Operation[*row]{
		w.put(&row{key: "a", own: status.Pending()}, nil),
		w.put(&row{key: "b", own: status.Pending()}, errors.New("no")),
		w.put(&row{key: "c", own: status.Pending()}, outcome.Blocked("a device")),
	}
	ops[0].Outcome.Object.value = "set by the operation"
	before := w.rows.DB.ReadTxn()
	_, c := w.write(ops...)
	require.Equal(t, 3, c.Written)
	require.Equal(t, w.rows.Revision(), c.Revision)
	require.Equal(t, status.KindDone, w.get("a").own.Kind)
	require.Equal(t, "set by the operation", w.get("a").value)
	require.Equal(t, "no", *w.get("b").own.Error)
	require.Equal(t, status.KindBlocked, w.get("c").own.Kind)
	old, _, _ := w.rows.Get(before, &row{key: "a"})
	require.Equal(t, status.KindPending, old.own.Kind, "rows are not changed in place")
}

func TestUnchangedOutcomeIsNotWritten(t *testing.T) {
	w := newWorld(t, nil)
	again := func(s status.Status, err error) int {
		op := w.put(&row{key: "a", own: s}, err)
		op.Turn.Waited, op.Tries = true, 9
		_, c := w.write(op)
		return c.Written
	}
	no := "no"
	require.Equal(t, 0, again(status.Done(), nil))
	require.Equal(t, 0, again(status.ErrorText(time.Now(), &no), errors.New("no")))
	require.Equal(t, 1, again(status.ErrorText(time.Now(), &no), errors.New("yes")), "another text")
	require.Equal(t, 1, again(status.ErrorText(time.Now(), &no), nil))
	deleted := w.put(&row{key: "d", own: status.Pending()}, nil)
	deleted.Deleted = true
	_, c := w.write(deleted)
	require.Equal(t, 0, c.Written, "no row has the status of a deletion")
}

func TestOutcomeOfAChangedObjectIsLost(t *testing.T) {
	w := newWorld(t, nil)
	changed, deleted := w.put(&row{key: "a", own: status.Pending()}, nil), w.put(&row{key: "b", own: status.Pending()}, nil)
	w.change("a", func(r *row) { r.own = status.Pending() })
	wtxn := w.rows.DB.WriteTxn(w.rows.Table)
	_, _, _ = w.rows.Writable.Table.Delete(wtxn, &row{key: "b"})
	wtxn.Commit()
	ops, c := w.write(changed, deleted)
	require.Equal(t, Commit{Lost: 2, Revision: c.Revision}, c)
	require.True(t, ops[0].Outcome.Lost && ops[1].Outcome.Lost)
	require.Equal(t, status.KindPending, w.get("a").own.Kind)
	_, _, found := w.rows.Get(w.rows.DB.ReadTxn(), &row{key: "b"})
	require.False(t, found, "a status write must not bring a deleted object back")
}

func TestStatusOfAnotherReconcilerIsKept(t *testing.T) {
	for _, merge := range []func(current, reconciled *row) *row{
		nil, func(current, reconciled *row) *row { current.value = reconciled.value; return current },
	} {
		w := newWorld(t, merge)
		op := w.put(&row{key: "a", own: status.Pending()}, nil)
		op.Outcome.Object.value = "set by the operation"
		w.change("a", func(r *row) { r.other = status.Done() })
		ops, c := w.write(op)
		require.Equal(t, 1, c.Conflicts)
		require.True(t, ops[0].Effect.Conflict)
		now := w.get("a")
		require.Equal(t, status.KindDone, now.own.Kind)
		require.Equal(t, status.KindDone, now.other.Kind)
		require.Equal(t, merge != nil, now.value != "", "only a merge keeps what the operation set")
	}
}

func TestChangedKeyOfACloneIsDropped(t *testing.T) {
	w := newWorld(t, nil)
	op := w.put(&row{key: "a", own: status.Pending()}, nil)
	op.Outcome.Object.key = "b"
	_, c := w.write(op)
	require.Equal(t, 1, c.Written)
	require.Equal(t, status.KindDone, w.get("a").own.Kind)
	_, _, found := w.rows.Get(w.rows.DB.ReadTxn(), &row{key: "b"})
	require.False(t, found)
}

// oneHold is a core in which at most one change holds the mark.
type oneHold struct {
	revision uint64
	observed time.Duration
}

func (h *oneHold) TakeRecords(until time.Duration, _ func(core.Record[*row])) {
	if h.observed <= until {
		h.revision = 0
	}
}

func (h *oneHold) HoldsSince() (uint64, time.Duration, bool) {
	return h.revision, h.observed, h.revision > 0
}

// The mark would stop below what an interval has, or the interval would have a change that waits.
func TestNoChangeHoldsTheMarkWhileThereAreIntervals(t *testing.T) {
	db, held, now := statedb.New(), &oneHold{}, time.Second
	tables, err := open(db, "beside")
	require.NoError(t, err)
	l := NewBeside(rows.NewBeside(db, newTable(t, db, "rows")), tables, held, slog.New(slog.DiscardHandler),
		func() time.Duration { return now }, func(time.Duration) time.Time { return time.Time{} })
	pass := func(holds uint64, observed statedb.Revision, ahead ...observe.Range) *Mark {
		*held = oneHold{holds, now}
		l.Begin(now, observed)
		l.Publish(observed, ahead, false)
		return tables.Current(db.ReadTxn())
	}
	for _, test := range []struct {
		holds, observed, mark statedb.Revision
		ahead, intervals      []observe.Range
	}{
		{holds: 5, observed: 10, mark: 4},
		{holds: 5, observed: 10, mark: 10, ahead: []observe.Range{{After: 20, UpTo: 30}}, intervals: []observe.Range{{After: 20, UpTo: 30}}},
		{holds: 12, observed: 22, mark: 22, ahead: []observe.Range{{After: 20, UpTo: 30}}, intervals: []observe.Range{{After: 22, UpTo: 30}}},
		{holds: 25, observed: 40, mark: 40},
		{holds: 45, observed: 50, mark: 44},
	} {
		m := pass(test.holds, test.observed, test.ahead...)
		require.Equal(t, test.mark, m.Revision)
		require.Equal(t, test.intervals, m.Intervals)
	}
	at, ok := l.Next()
	require.True(t, ok)
	require.Equal(t, now+MaxHold, at)
	now = at
	l.Begin(now, 50)
	l.Publish(50, nil, false)
	require.Equal(t, statedb.Revision(50), tables.Current(db.ReadTxn()).Revision)
	_, ok = l.Next()
	require.False(t, ok)
}

func newTable(t *testing.T, db *statedb.DB, name string) statedb.RWTable[*row] {
	table, err := statedb.NewTable(db, name, statedb.Index[*row, string]{
		Name: "key", FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.key)) },
		FromKey: index.String, FromString: index.FromString, Unique: true,
	})
	require.NoError(t, err)
	return table
}

// open opens tables for a user that does not end.
func open(db *statedb.DB, name string) (*Tables, error) {
	return OpenTables(db, name, make(chan struct{}), index.FromString)
}

// write writes an outcome and the mark in one transaction.
func write(t *testing.T, db *statedb.DB, tables *Tables, key string, mark statedb.Revision) {
	wtxn := db.WriteTxn(tables.Outcomes, tables.Mark)
	defer wtxn.Commit()
	_, _, err := tables.Outcomes.Insert(wtxn, &inspect.Outcome{ID: []byte(key), Key: key, Kind: status.KindPending})
	require.NoError(t, err)
	require.NoError(t, tables.SetMark(wtxn, mark, nil))
}

func TestMarkCoversItsRevisionsAndItsIntervals(t *testing.T) {
	for _, test := range []struct {
		mark    Mark
		covered []statedb.Revision
	}{
		{Mark{}, []statedb.Revision{0}},
		{Mark{Revision: 3}, []statedb.Revision{0, 1, 2, 3}},
		{Mark{Intervals: []observe.Range{{After: 4, UpTo: 5}}}, []statedb.Revision{0, 5}},
		{Mark{Revision: 1, Intervals: []observe.Range{{After: 3, UpTo: 4}, {After: 4, UpTo: 6}, {After: 8, UpTo: 9}}}, []statedb.Revision{0, 1, 4, 5, 6, 9}},
		{Mark{Revision: 1, Intervals: []observe.Range{{After: 3, UpTo: 3}, {After: 6, UpTo: 8}}}, []statedb.Revision{0, 1, 7, 8}},
	} {
		var covered []statedb.Revision
		for revision := range statedb.Revision(12) {
			if test.mark.Covers(revision) {
				covered = append(covered, revision)
			}
		}
		require.Equal(t, test.covered, covered, "%+v", test.mark)
	}
}

func TestMarkIsShownWithTheRevisionsOfItsIntervals(t *testing.T) {
	mark := Mark{Revision: 7, Intervals: []observe.Range{{After: 9, UpTo: 12}, {After: 20, UpTo: 21}}}
	require.Len(t, mark.TableHeader(), 2)
	require.Equal(t, []string{"7", "10-12, 21-21"}, mark.TableRow())
	mark.Intervals = make([]observe.Range, 1000)
	require.LessOrEqual(t, len(mark.TableRow()[1]), 300)
}

func TestMissingMarkCoversNothing(t *testing.T) {
	db := statedb.New()
	newTable(t, db, "objects")
	tables, err := open(db, "objects")
	require.NoError(t, err)
	wtxn := db.WriteTxn(tables.Mark)
	require.NoError(t, tables.Mark.DeleteAll(wtxn))
	txn := wtxn.Commit()
	require.Equal(t, &Mark{}, tables.Current(txn))
	require.False(t, tables.Current(txn).Covers(1))
}

func TestTablesOfAnEndedUserAreTakenOverAndEmptied(t *testing.T) {
	db := statedb.New()
	newTable(t, db, "objects")
	ended := make(chan struct{})
	first, err := OpenTables(db, "objects", ended, index.FromString)
	require.NoError(t, err)
	for i := range 1000 {
		write(t, db, first, fmt.Sprint(i), statedb.Revision(i))
	}
	_, err = open(db, "objects")
	require.EqualError(t, err, `a reconciler named "objects" has the tables "objects-outcomes" and "objects-mark"`)
	require.Equal(t, 1000, first.Outcomes.NumObjects(db.ReadTxn()), "nothing is removed")

	close(ended)
	second, err := open(db, "objects")
	require.NoError(t, err)
	require.Equal(t, first.Outcomes, second.Outcomes)
	require.Zero(t, second.Outcomes.NumObjects(db.ReadTxn()))
	require.Zero(t, second.Current(db.ReadTxn()).Revision)
	write(t, db, second, "a", 7)

	_, err = open(db, "objects")
	require.ErrorContains(t, err, `a reconciler named "objects" has the tables`)
	wtxn := db.WriteTxn(first.Outcomes, first.Mark)
	require.ErrorContains(t, first.SetMark(wtxn, 1000, nil), "taken over")
	wtxn.Abort()
	require.EqualValues(t, 7, second.Current(db.ReadTxn()).Revision)
}

func TestOneOfManyOpensOfANameWins(t *testing.T) {
	db := statedb.New()
	newTable(t, db, "objects")
	for round := range 20 {
		var all sync.WaitGroup
		var won atomic.Int32
		for range 4 {
			all.Go(func() {
				if _, err := open(db, fmt.Sprint("name-", round)); err == nil {
					won.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, won.Load())
	}
}

func TestNameIsAcceptedIfStatedbAcceptsItsTables(t *testing.T) {
	for _, name := range []string{"a-b_c9", strings.Repeat("x", 22), "", "9a", "a.b", "ä", "a\n", strings.Repeat("x", 23)} {
		db := statedb.New()
		newTable(t, db, "objects-of-a-user")
		_, got := open(db, name)
		_, want := statedb.NewTable(statedb.New(), name+"-outcomes", statedb.Index[*row, string]{
			Name: "key", FromObject: func(*row) index.KeySet { return index.EmptyKeySet }, FromKey: index.String, Unique: true,
		})
		if want == nil {
			require.NoError(t, got, "%q", name)
			continue
		}
		require.ErrorContains(t, got, fmt.Sprintf("the name %q cannot be used", name))
		require.ErrorContains(t, got, fmt.Sprintf("%q, does not match statedb's rule ^[a-z][a-z0-9_\\-]{0,30}$", name+"-outcomes"))
		require.Len(t, db.GetTables(db.ReadTxn()), 1, "nothing is registered")
	}
}

func TestKeysAreReadByTheLatestUserOfTheTables(t *testing.T) {
	db := statedb.New()
	newTable(t, db, "objects")
	for _, prefix := range []string{"x", "y", ""} {
		ended := make(chan struct{})
		tables, err := OpenTables(db, "objects", ended, func(text string) (index.Key, error) {
			if prefix == "" {
				return nil, errors.New("no key")
			}
			return index.Key(prefix + text), nil
		})
		require.NoError(t, err)
		write(t, db, tables, prefix+"a", 1)
		found, err := statedb.AnyTable{Meta: tables.Outcomes}.List(db.ReadTxn(), "id", "a")
		if prefix == "" {
			require.ErrorContains(t, err, "no key")
			continue
		}
		n := 0
		for range found {
			n++
		}
		require.Equal(t, 1, n, "the commands of statedb read keys in the same way")
		close(ended)
	}
}

type bounds struct {
	after, upTo time.Duration
	ok          bool
}

func boundsOf(after, upTo time.Duration, ok bool) bounds { return bounds{after, upTo, ok} }

// history is a random history of writes and of the mark, with all that is true of it.
type history struct {
	rng *rand.Rand
	now time.Duration
	// written and attempted have the time of each revision from 1 on; 0 for times before the first
	// sample.
	written, attempted []time.Duration
	first              time.Duration
	// natural is the greatest gap between two samples.
	natural time.Duration
}

// step lets a random time pass, with random writes, and returns the arguments of Note.
func (h *history) step(longest time.Duration) (now time.Duration, table, mark statedb.Revision) {
	before := h.now
	for range h.rng.IntN(4) {
		h.now += time.Duration(h.rng.Int64N(int64(longest)))
		if h.rng.IntN(3) > 0 {
			h.written = append(h.written, h.now)
		}
		if h.rng.IntN(3) > 0 && len(h.attempted) < len(h.written) {
			h.attempted = append(h.attempted, h.now)
		}
	}
	h.now += time.Duration(h.rng.Int64N(int64(longest)))
	h.natural = max(h.natural, h.now-before)
	return h.now, statedb.Revision(len(h.written)), statedb.Revision(len(h.attempted))
}

// check compares the bounds for all revisions with the history. share is the share of a revision's age
// which its bounds may be apart; 0 means any.
func (h *history) check(t *testing.T, of func(statedb.Revision) (after, upTo time.Duration, ok bool), truth []time.Duration, share time.Duration) {
	last := bounds{after: -1}
	for i, at := range truth {
		got := boundsOf(of(statedb.Revision(i + 1)))
		if !got.ok || at < got.after || at > got.upTo {
			t.Fatalf("revision %d of %v: the bounds are %+v", i+1, at, got)
		}
		if got.after < last.after || got.upTo < last.upTo {
			t.Fatalf("revision %d: the bounds %+v decrease after %+v", i+1, got, last)
		}
		if got.after == -1 && (got.upTo != h.first || at > h.first) {
			t.Fatalf("revision %d: the bounds are %+v, the first sample was at %v", i+1, got, h.first)
		}
		if share > 0 && got.after >= 0 && got.upTo-got.after > max(2*h.natural, (h.now-got.after)/share) {
			t.Fatalf("revision %d, %v ago: the bounds are %v apart", i+1, h.now-got.upTo, got.upTo-got.after)
		}
		last = got
	}
	if _, _, ok := of(statedb.Revision(len(truth) + 1)); ok {
		t.Fatal("there are bounds for a revision that is not written")
	}
}

func TestBoundsContainTheTrueTimes(t *testing.T) {
	for seed := range uint64(long.Times(8)) {
		h := &history{rng: rand.New(rand.NewPCG(seed, 0))}
		var times Times
		// Some histories have pauses, and a clock that stands still.
		longest := []time.Duration{1, 2, time.Millisecond, time.Second}[seed%4]
		// Without them the bounds are close, compared with the age of the revision.
		pauses := seed%8 >= 4
		share := time.Duration(8)
		if pauses || longest < time.Millisecond {
			share = 0
		}
		for step := range 10_000 {
			pause := longest
			if pauses && h.rng.IntN(100) == 0 {
				pause = longest * 1000
			}
			times.Note(h.step(pause))
			if step == 0 {
				h.first = h.now
			}
			require.LessOrEqual(t, len(times.samples), maxSamples)
			if step%2499 == 0 || step == 9999 {
				h.check(t, times.Written, h.written, share)
				h.check(t, times.Applied, h.attempted, share)
			}
		}
	}
}

func TestTimesAreReadWhileTheLoopNotesThem(t *testing.T) {
	var times Times
	const last = 5_000
	times.Note(0, 0, 0)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for revision := statedb.Revision(1); revision <= last; {
				after, upTo, ok := times.Written(revision)
				if !ok {
					continue
				}
				// Revision n is written at time n.
				if at := time.Duration(revision); at < after || at > upTo {
					t.Errorf("revision %d: the bounds are %d and %d", revision, after, upTo)
					return
				}
				revision++
			}
		})
	}
	for revision := statedb.Revision(1); revision <= last; revision++ {
		times.Note(time.Duration(revision), revision, revision-1)
	}
	all.Wait()
}

func TestLateRevisionIsAppliedWhenItsRowIsDeleted(t *testing.T) {
	var times Times
	times.Note(10, 1000, 1000)
	times.Note(20, 2000, 2000)
	times.NoteLate(30, 1500)
	require.Equal(t, bounds{10, 30, true}, boundsOf(times.Applied(1500)))
	require.Equal(t, bounds{10, 20, true}, boundsOf(times.Applied(1501)), "it had no row")
	times.NoteLate(40, 1500)
	require.Equal(t, bounds{10, 40, true}, boundsOf(times.Applied(1500)), "a refresh failed, and then did not")

	for late := range statedb.Revision(512) {
		times.NoteLate(50, 1001+late%400+late/400)
	}
	for late := range statedb.Revision(600) {
		times.NoteLate(time.Duration(60+late), 1+late)
	}
	require.Equal(t, bounds{-1, 60 + 599, true}, boundsOf(times.Applied(600)))
	require.Equal(t, bounds{10, 60 + 87, true}, boundsOf(times.Applied(1500)), "it may have been any that was dropped")
	require.Equal(t, bounds{10, 20, true}, boundsOf(times.Applied(1502)), "none so high was dropped")
}
