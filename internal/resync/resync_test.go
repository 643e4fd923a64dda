// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row struct {
	id    uint64
	value int
}

func (row) TableHeader() []string { return []string{"ID"} }
func (r row) TableRow() []string  { return []string{fmt.Sprint(r.id)} }

var rowID = statedb.Index[row, uint64]{
	Name: "id",
	FromObject: func(r row) index.KeySet {
		if r.id == 0 {
			return index.KeySet{}
		}
		return index.NewKeySet(index.Uint64(r.id))
	},
	FromKey: index.Uint64, FromString: index.Uint64String,
	Unique: true,
}

// world is a table and its Resync. The test plays the loop.
type world struct {
	*testing.T
	*Resync[row]
	table statedb.RWTable[row]
	// pending has the keys of the rows that are not Done, tracked those with an entry in the core.
	pending, tracked map[uint64]bool
	// listed is what the target has, in the order of the listing; err is the error of the listing. during is called
	// at its end.
	listed []row
	err    error
	during func(ctx context.Context)
	now    time.Duration
	// looks counts the objects that were looked for in the core.
	looks int
}

func play(t *testing.T, change func(cfg *Config[row])) *world {
	db := statedb.New()
	table, err := statedb.NewTable(db, "rows", rowID)
	require.NoError(t, err)
	w := &world{T: t, table: table, pending: map[uint64]bool{}, tracked: map[uint64]bool{}, during: func(context.Context) {}}
	cfg := Config[row]{
		Rows: rows.NewBeside[row](db, table),
		List: func(ctx context.Context, _ statedb.ReadTxn, yield func(row) bool) error {
			for _, r := range w.listed {
				yield(r)
			}
			w.during(ctx)
			return w.err
		},
		Equal:   func(wanted, found row) bool { return wanted.value == found.value },
		Diff:    func(wanted, found row) string { return fmt.Sprintf("%d != %d", wanted.value, found.value) },
		Done:    func(_ statedb.ReadTxn, r row, _ statedb.Revision) bool { return !w.pending[r.id] },
		Tracks:  func(r row) bool { w.looks++; return w.tracked[r.id] },
		Timeout: func() time.Duration { return 30 * time.Second },
		Now:     func() time.Duration { return w.now },
		Guard: func(name string, f func() error) (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("panic in %s: %v", name, r)
				}
			}()
			return f()
		},
	}
	if change != nil {
		change(&cfg)
	}
	w.Resync = New(cfg)
	t.Cleanup(func() { w.Stop() })
	return w
}

func (w *world) set(objects ...row) {
	txn := w.cfg.Rows.DB.WriteTxn(w.table)
	for _, r := range objects {
		_, _, err := w.table.Insert(txn, r)
		require.NoError(w, err)
	}
	txn.Commit()
}

func (w *world) remove(ids ...uint64) {
	txn := w.cfg.Rows.DB.WriteTxn(w.table)
	for _, id := range ids {
		_, _, err := w.table.Delete(txn, row{id: id})
		require.NoError(w, err)
	}
	txn.Commit()
}

// begin begins a listing, and waits for its end.
func (w *world) begin() {
	w.Start(w.Context(), w.cfg.Rows.DB.ReadTxn())
	<-w.Ended
}

// result is a result with the orphans that were handed out.
type result struct {
	Result
	orphans []uint64
}

// finish ends a listing that worked.
func (w *world) finish() (out result) {
	_, _, ended, err := w.Take(w.now)
	require.False(w, ended)
	require.NoError(w, err)
	for over := false; !over; {
		w.looks = 0
		out.Result, over = w.step(&out.orphans)
		require.LessOrEqual(w, w.looks, slice)
		at, more := w.Next(w.now)
		require.True(w, over || more && at == w.now)
	}
	return out
}

// step calls Finish once.
func (w *world) step(orphans *[]uint64) (Result, bool) {
	return w.Finish(w.cfg.Rows.Revision(), false, func(o row, _ statedb.Revision) bool {
		*orphans = append(*orphans, o.id)
		return true
	})
}

// finishes reports whether there is a listing for Finish when the main cursor has passed a revision.
func (w *world) finishes(passed statedb.Revision) bool {
	_, over := w.Finish(passed, false, func(row, statedb.Revision) bool {
		w.Error("an orphan")
		return false
	})
	return over
}

// repairs returns the rows that are to be repaired.
func (w *world) repaired() (ids []uint64) {
	for r, revision := range w.table.All(w.cfg.Rows.DB.ReadTxn()) {
		if w.Wants(r, revision) {
			ids = append(ids, r.id)
		}
	}
	return ids
}

func (w *world) ended(id uint64) { w.NoteAttempt(Attempt[row]{Row: row{id: id}}) }

func TestListingIsSortedIntoFour(t *testing.T) {
	w := play(t, nil)
	w.set(row{1, 1}, row{2, 1}, row{3, 1}, row{4, 1}, row{5, 1})
	w.pending[4], w.pending[5] = true, true
	w.listed = []row{{1, 1}, {2, 9}, {5, 9}, {7, 1}}
	w.begin()
	out := w.finish()
	require.Equal(t, []uint64{7}, out.orphans)
	require.Equal(t, []uint64{2, 3}, w.repaired(), "4 and 5 are not Done")
	out.Record.Started = time.Time{}
	require.Equal(t, inspect.Resync{
		Listed: 4, Equal: 1, Different: 1, Missing: 1, Orphan: 1,
		Differences: []inspect.Difference{
			{Key: "2", Kind: "different", Diff: "1 != 9"}, {Key: "3", Kind: "missing"}, {Key: "7", Kind: "orphan"},
		},
	}, out.Record)
	ok := w.finishes(w.cfg.Rows.Revision())
	require.False(t, ok, "a listing ends once")
}

// What was listed says nothing of a key of which an operation has ended since the listing began.
func TestKeyIsNotJudgedIfAnOperationEndedSinceTheListingBegan(t *testing.T) {
	w := play(t, nil)
	w.set(row{1, 1}, row{2, 1}, row{3, 1}, row{4, 1})
	w.listed = []row{{1, 9}, {2, 9}, {7, 1}, {8, 1}}
	w.begin()
	w.ended(1)
	w.ended(3)
	w.ended(7)
	out := w.finish()
	require.Equal(t, []uint64{8}, out.orphans)
	require.Equal(t, []uint64{2, 4}, w.repaired())
	require.Equal(t, 1, out.Record.Different)
	require.Equal(t, 1, out.Record.Missing)
	// An operation that ends before its repair has its turn ends the repair, too.
	w.ended(2)
	w.tracked[4] = true
	require.Empty(t, w.repaired())
	w.tracked[4] = false
	require.Equal(t, []uint64{4}, w.repaired())
	w.EndRepairs()
	require.Empty(t, w.repaired())
	require.False(t, w.Notes())
}

func TestOrphanIsInNeitherTheTableNorTheCore(t *testing.T) {
	w := play(t, nil)
	w.listed = []row{{1, 1}, {2, 1}, {3, 1}, {3, 1}}
	w.during = func(context.Context) { w.set(row{1, 1}) }
	w.begin()
	w.tracked[2] = true
	ok := w.finishes(w.cfg.Rows.Revision() - 1)
	require.False(t, ok, "main has not passed the listing")
	require.Equal(t, []uint64{3}, w.finish().orphans)
}

// Changes wait for a slice of a resync, not for all of it. An orphan that is wanted, or was worked on, by the time it is
// its turn is left alone.
func TestManyOrphansAreJudgedAndHandedOutInSlices(t *testing.T) {
	w := play(t, nil)
	const n = 10 * slice
	for id := range uint64(n) {
		w.listed = append(w.listed, row{id + 1, 1})
	}
	w.set(row{n + 1, 1}, row{n + 2, 1})
	w.begin()
	var orphans []uint64
	for len(orphans) == 0 {
		_, over := w.step(&orphans)
		require.False(t, over)
	}
	w.set(row{n - 1, 1})
	w.tracked[n-2] = true
	w.ended(n - 3)
	w.ended(n + 1)
	out := w.finish()
	require.Len(t, append(orphans, out.orphans...), n-3)
	for _, id := range []uint64{n - 1, n - 2, n - 3} {
		require.NotContains(t, out.orphans, id)
	}
	require.Equal(t, n, out.Record.Orphan)
	require.Equal(t, 1, out.Record.Missing)
	require.Equal(t, []uint64{n + 2}, w.repaired())
}

// A row is equal only if it is equal to all that was listed with its key.
func TestObjectThatIsListedTwice(t *testing.T) {
	w := play(t, nil)
	w.set(row{1, 1}, row{2, 1}, row{3, 1})
	w.listed = []row{{1, 1}, {1, 9}, {2, 9}, {2, 1}, {3, 1}, {3, 1}}
	w.begin()
	out := w.finish()
	require.Equal(t, []uint64{1, 2}, w.repaired())
	require.Equal(t, 2, out.Record.Different)

	w.WaitForFirst(0)
	w.begin()
	_, adopts, _, err := w.Take(0)
	require.True(t, adopts)
	require.NoError(t, err)
	require.False(t, w.Adopts(row{1, 1}) || w.Adopts(row{2, 1}))
	require.True(t, w.Adopts(row{3, 1}))
}

func TestListingThatFailsChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(w *world)
		want  string
	}{
		"error": {func(w *world) { w.err = errors.New("down") }, "listing the target: down"},
		"panic": {func(w *world) { w.during = func(context.Context) { panic("boom") } }, "listing the target: panic in list: boom"},
		"exit":  {func(w *world) { w.during = func(context.Context) { runtime.Goexit() } }, "listing the target: the operation called runtime.Goexit"},
		"equal": {func(w *world) { w.cfg.Equal = func(row, row) bool { panic("odd") } }, "listing the target: panic in equal: odd"},
	} {
		t.Run(name, func(t *testing.T) {
			w := play(t, nil)
			c.fails(w)
			w.set(row{1, 1}, row{2, 1})
			w.listed = []row{{1, 9}, {7, 1}}
			w.begin()
			_, adopts, ended, err := w.Take(0)
			require.True(t, ended && !adopts)
			require.EqualError(t, err, c.want)
			ok := w.finishes(w.cfg.Rows.Revision())
			require.False(t, ok)
			require.Empty(t, w.repaired())
		})
	}
}

func TestListingEndsWithTheLoop(t *testing.T) {
	w := play(t, nil)
	w.during = func(ctx context.Context) { <-ctx.Done() }
	w.listed = []row{{7, 1}}
	w.Start(t.Context(), w.cfg.Rows.DB.ReadTxn())
	_, running := w.Running()
	require.True(t, running)
	require.True(t, w.Stop())
	require.False(t, w.Stop(), "it is forgotten")
	_, _, ended, err := w.Take(0)
	require.False(t, ended)
	require.NoError(t, err, "a stop is no failure")
}

// The loop may still look at a listing that its end has cut short.
func TestListingThatIsCutShortIsNoResult(t *testing.T) {
	for _, when := range []string{"while it lists", "while it looks for missing rows"} {
		ctx, cancel := context.WithCancel(t.Context())
		w := play(t, func(cfg *Config[row]) {
			cfg.Done = func(statedb.ReadTxn, row, statedb.Revision) bool { cancel(); return true }
		})
		var rows []row
		for id := range uint64(3000) {
			rows = append(rows, row{id + 1, 1})
		}
		w.set(rows...)
		if when == "while it lists" {
			w.during = func(context.Context) { cancel() }
		}
		w.Start(ctx, w.cfg.Rows.DB.ReadTxn())
		<-w.Ended
		_, _, ended, err := w.Take(0)
		require.True(t, ended, when)
		require.ErrorIs(t, err, context.Canceled, when)
		require.Empty(t, w.repaired(), when)
	}
}

func TestOrphansOnlyJudgesNoRow(t *testing.T) {
	w := play(t, func(cfg *Config[row]) { cfg.OrphansOnly, cfg.Equal, cfg.Diff = true, nil, nil })
	w.set(row{1, 1}, row{2, 1})
	w.listed = []row{{1, 9}, {7, 1}}
	w.begin()
	out := w.finish()
	require.Equal(t, []uint64{7}, out.orphans)
	require.Empty(t, w.repaired())
}

func TestObjectsWithoutAKeyAreLeftAlone(t *testing.T) {
	w := play(t, nil)
	w.listed = []row{{0, 1}, {7, 1}}
	w.begin()
	out := w.finish()
	require.Equal(t, []uint64{7}, out.orphans)
	require.EqualError(t, out.Err, "1 of 2 listed objects are left alone: the primary index makes no key of the object")
}

func TestFirstListingIsComparedWithRowsThatComeLater(t *testing.T) {
	w := play(t, nil)
	w.WaitForFirst(0)
	require.True(t, w.Waiting())
	w.listed = []row{{1, 1}, {2, 1}, {3, 9}, {8, 1}}
	w.begin()
	_, adopts, ended, err := w.Take(time.Second)
	require.True(t, adopts && ended && !w.Waiting())
	require.NoError(t, err)
	require.True(t, w.Adopts(row{1, 1}))
	require.True(t, w.Adopts(row{1, 1}), "it was not run")
	require.False(t, w.Adopts(row{1, 2}))
	w.NoteAttempt(Attempt[row]{Row: row{1, 1}, Adopted: true})
	require.True(t, w.Adopts(row{1, 1}), "a new wish does not matter")
	w.NoteAttempt(Attempt[row]{Row: row{1, 1}, Adopted: true})
	w.ended(1)
	require.False(t, w.Adopts(row{1, 1}), "an operation of the key has ended")
	require.False(t, w.Adopts(row{3, 1}))
	w.ended(3)
	require.False(t, w.Adopts(row{3, 9}))
	w.NoteAttempt(Attempt[row]{Row: row{2, 1}, Deleted: true})
	require.False(t, w.Adopts(row{2, 1}))
	w.ended(4)
	record, ok := w.FinishAdoption()
	require.True(t, ok)
	record.Started = time.Time{}
	require.Equal(t, inspect.Resync{Adopts: true, Listed: 4, Equal: 1, Different: 1, Missing: 1,
		Differences: []inspect.Difference{{Key: "3", Kind: "different", Diff: "0 != 9"}}}, record)
	require.False(t, w.Adopts(row{8, 1}))
}

func TestWaitForTheFirstListingEnds(t *testing.T) {
	w := play(t, nil)
	w.WaitForFirst(time.Second)
	at, ok := w.Next(time.Second)
	require.True(t, ok)
	require.Equal(t, 31*time.Second, at)
	require.False(t, w.Look(31*time.Second-1))
	require.Empty(t, w.Trouble(31*time.Second-1))
	require.True(t, w.Look(31*time.Second))
	require.False(t, w.Waiting())
	require.Equal(t, "no listing of the target has worked within ListTimeout of the start: objects are applied without a comparison", w.Trouble(31*time.Second))

	w.listed = []row{{1, 1}}
	w.begin()
	w.finish()
	require.Empty(t, w.Trouble(time.Hour))
}

// What the first listing found is forgotten if the table is not initialised in time.
func TestFirstListingIsForgotten(t *testing.T) {
	for _, initialized := range []bool{false, true} {
		w := play(t, nil)
		txn := w.cfg.Rows.DB.WriteTxn(w.table)
		done := w.table.RegisterInitializer(txn, "source")
		if initialized {
			done(txn)
		}
		txn.Commit()
		w.WaitForFirst(0)
		w.listed = []row{{1, 1}}
		w.begin()
		w.Take(10 * time.Second)
		require.Equal(t, !initialized, w.Look(40*time.Second))
		require.Equal(t, initialized, w.Adopts(row{1, 1}))
	}
}

func TestFirstListingThatComesTooLateIsNotUsed(t *testing.T) {
	w := play(t, nil)
	w.WaitForFirst(0)
	w.listed = []row{{1, 1}}
	w.during = func(context.Context) { require.True(t, w.Look(30*time.Second)) }
	w.begin()
	require.NotEmpty(t, w.Trouble(31*time.Second))
	_, adopts, ended, err := w.Take(31 * time.Second)
	require.True(t, ended && !adopts)
	require.NoError(t, err)
	require.Empty(t, w.Trouble(31*time.Second), "a listing has worked")
	require.False(t, w.Adopts(row{1, 1}))
	ok := w.finishes(w.cfg.Rows.Revision())
	require.False(t, ok)
}

// The loop may look late, for example since its process was frozen.
func TestFirstListingThatIsTakenLateIsUsed(t *testing.T) {
	w := play(t, nil)
	w.WaitForFirst(0)
	w.listed = []row{{1, 1}}
	w.begin()
	require.False(t, w.Look(time.Hour))
	require.True(t, w.Waiting())
	_, adopts, _, err := w.Take(time.Hour)
	require.NoError(t, err)
	require.True(t, adopts && w.Adopts(row{1, 1}))
}

func TestRefusedRowIsNotAdopted(t *testing.T) {
	w := play(t, nil)
	w.WaitForFirst(0)
	w.listed = []row{{1, 1}, {2, 1}}
	w.Refuse(row{1, 0})
	w.begin()
	w.Take(0)
	require.False(t, w.Adopts(row{1, 1}))
	require.True(t, w.Adopts(row{2, 1}))
	w.FinishAdoption()
	w.Refuse(row{2, 0})
	w.WaitForFirst(0)
	w.begin()
	w.Take(0)
	require.True(t, w.Adopts(row{2, 1}), "that was before the start")
}

// Calls go on as long as the program runs. Without an adoption that is ahead, they must not take memory.
func TestRefusalsAreKeptForAnAdoptionOnly(t *testing.T) {
	never := play(t, func(cfg *Config[row]) { cfg.Equal, cfg.Diff = nil, nil })
	never.Refuse(row{1, 1})
	require.Empty(t, never.refused.keys)

	w := play(t, nil)
	w.Refuse(row{1, 1})
	require.Len(t, w.refused.keys, 1, "the loop has not started")
	timeout := 30 * time.Second
	w.Resync.cfg.Timeout = func() time.Duration { return timeout }
	w.WaitForFirst(0)
	require.Len(t, w.refused.keys, 1)
	timeout = 0
	w.WaitForFirst(0)
	w.Refuse(row{2, 1})
	require.Empty(t, w.refused.keys, "nothing is adopted")
}

func TestLongListingIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t, nil)
		w.during = func(ctx context.Context) { <-ctx.Done() }
		w.Start(t.Context(), w.cfg.Rows.DB.ReadTxn())
		at, ok := w.Next(0)
		require.True(t, ok)
		require.Equal(t, 30*time.Second, at)
		require.Empty(t, w.Trouble(30*time.Second-1))
		require.Contains(t, w.Trouble(30*time.Second), "the listing of the target runs since 2000-01-01T")
		_, ok = w.Next(30 * time.Second)
		require.False(t, ok)
		w.Stop()
	})
}

// Random tables and targets, with operations and writes during the listing: a model says which keys are judged.
func TestResyncAgreesWithAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		w := play(t, nil)
		n := uint64(1 + r.IntN(40))
		found, touched := map[uint64]int{}, map[uint64]bool{}
		for id := range n {
			id++
			if r.IntN(3) > 0 {
				w.set(row{id, r.IntN(2)})
			}
			if r.IntN(3) > 0 {
				found[id] = r.IntN(2)
				w.listed = append(w.listed, row{id, found[id]})
			}
			w.pending[id] = r.IntN(5) == 0
		}
		w.during = func(context.Context) {
			for range r.IntN(5) {
				if id := 1 + r.Uint64N(n); r.IntN(2) == 0 {
					w.remove(id)
					touched[id] = true
				} else {
					w.set(row{id, 5})
					touched[id] = true
				}
			}
		}
		w.begin()
		for id := range touched {
			w.ended(id)
		}
		out := w.finish()
		wanted := map[uint64]int{}
		for o := range w.table.All(w.cfg.Rows.DB.ReadTxn()) {
			wanted[o.id] = o.value
		}
		var orphans, repairs []uint64
		for _, id := range slices.Sorted(maps.Keys(merged(wanted, found))) {
			value, wants := wanted[id]
			has, there := found[id]
			switch {
			case touched[id]:
			case !wants:
				orphans = append(orphans, id)
			case !w.pending[id] && (!there || has != value):
				repairs = append(repairs, id)
			}
		}
		require.Equal(t, orphans, out.orphans)
		require.Equal(t, repairs, w.repaired())
		require.Equal(t, len(repairs), out.Record.Different+out.Record.Missing)
	}
}

func merged(a, b map[uint64]int) map[uint64]int {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func TestResyncOfMoreThanItsBudgetIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		budget          Budget
		orphans, listed int
		refused         string
	}{
		"no budget":                {Budget{}, 10, 10, ""},
		"at the budget":            {Budget{Objects: 3}, 3, 10, ""},
		"one too many":             {Budget{Objects: 3}, 4, 10, "the table has no row for 4 of the 10 objects in the target, more than the budget of 3 objects: "},
		"at the fraction":          {Budget{Fraction: 0.25}, 3, 12, ""},
		"above the fraction":       {Budget{Fraction: 0.25}, 3, 11, "the table has no row for 3 of the 11 objects in the target, more than the budget of 25 % of them: "},
		"both, too many objects":   {Budget{Objects: 3, Fraction: 0.9}, 4, 10, "the budget of 3 objects: "},
		"both, above the fraction": {Budget{Objects: 30, Fraction: 0.1}, 4, 10, "the budget of 10 % of them: "},
		"nothing was listed":       {Budget{Objects: 1, Fraction: 0.1}, 0, 0, ""},
	} {
		err := c.budget.check(c.orphans, c.listed)
		if c.refused == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.refused, name)
		}
	}
}

func TestNothingMoreIsAdoptedAfterAPanicOfEqual(t *testing.T) {
	panics := 0
	w := play(t, func(cfg *Config[row]) { cfg.Equal = func(row, row) bool { panics++; panic("odd") } })
	w.WaitForFirst(0)
	w.listed = []row{{1, 1}, {2, 1}}
	w.begin()
	w.Take(0)
	require.False(t, w.Adopts(row{1, 1}))
	require.False(t, w.Adopts(row{2, 1}))
	require.Equal(t, 1, panics)
	_, ok := w.FinishAdoption()
	require.True(t, ok)
}

func TestRefusedResyncAlsoNamesObjectsWithoutAKey(t *testing.T) {
	w := play(t, func(cfg *Config[row]) { cfg.Budget = Budget{Objects: 1} })
	w.listed = []row{{0, 1}, {7, 1}, {8, 1}}
	w.begin()
	out := w.finish()
	require.Empty(t, out.orphans)
	require.ErrorIs(t, out.Err, ErrAwaits)
	require.ErrorContains(t, out.Err, "1 of 3 listed objects are left alone")
}

// A listing may end after Take has looked and before Finish does. One that failed, or that is adopted, is left to the next
// Take.
func TestFinishTakesNoListingThatIsForTake(t *testing.T) {
	w := play(t, nil)
	w.err = errors.New("down")
	w.begin()
	ok := w.finishes(w.cfg.Rows.Revision())
	require.False(t, ok)
	_, _, ended, err := w.Take(0)
	require.True(t, ended)
	require.EqualError(t, err, "listing the target: down")

	w.err, w.listed = nil, []row{{1, 1}}
	w.WaitForFirst(0)
	w.begin()
	ok = w.finishes(w.cfg.Rows.Revision())
	require.False(t, ok)
	_, adopts, _, err := w.Take(0)
	require.NoError(t, err)
	require.True(t, adopts && w.Adopts(row{1, 1}))
}
