// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/fights"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
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
	// attempted is the revision up to which everything was attempted. busy and stuck are the operations of the loop.
	attempted   statedb.Revision
	busy, stuck bool
	set         Settings
	// orphans are those that were handed out, wants is the walk over the rows to repair.
	orphans []uint64
	wants   func(row, statedb.Revision) bool
	// ready initialises the table after late.
	ready func(statedb.WriteTxn)
}

func play(t *testing.T, change func(cfg *Config[row])) *world {
	db := statedb.New()
	table, err := statedb.NewTable(db, "rows", rowID)
	require.NoError(t, err)
	w := &world{
		T: t, table: table, pending: map[uint64]bool{}, tracked: map[uint64]bool{}, during: func(context.Context) {},
		attempted: math.MaxUint64, set: Settings{MinBackoff: time.Second, MaxBackoff: time.Minute, ListTimeout: 30 * time.Second},
	}
	cfg := Config[row]{
		Rows: rows.NewBeside[row](db, table),
		List: func(ctx context.Context, _ statedb.ReadTxn, yield func(row) bool) error {
			for _, r := range w.listed {
				yield(r)
			}
			w.during(ctx)
			return w.err
		},
		Equal: func(wanted, found row) bool { return wanted.value == found.value },
		Diff:  func(wanted, found row) string { return fmt.Sprintf("%d != %d", wanted.value, found.value) },
		Kind: func(_ statedb.ReadTxn, r row, _ statedb.Revision) status.Kind {
			if w.pending[r.id] {
				return status.KindPending
			}
			return status.KindDone
		},
		Tracks:    func(r row) bool { w.looks++; return w.tracked[r.id] },
		TracksKey: func(string) bool { return false },
		Fights:    fights.New(false, func(row) []byte { return nil }, func() fights.Settings { return fights.Settings{} }),
		Orphan: func(r row, _ statedb.Revision) bool {
			w.orphans = append(w.orphans, r.id)
			return true
		},
		Repair:    func(wanted func(row, statedb.Revision) bool) { w.wants = wanted },
		Attempted: func() statedb.Revision { return w.attempted },
		Busy:      func() (busy, stuck bool) { return w.busy, w.stuck },
		Settings:  func() Settings { return w.set },
		Now:       func() time.Duration { return w.now },
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

func (w *world) put(objects ...row) {
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

// late has the table wait for an initialiser, which initialise ends.
func (w *world) late() {
	txn := w.cfg.Rows.DB.WriteTxn(w.table)
	w.ready = w.table.RegisterInitializer(txn, "source")
	txn.Commit()
}

func (w *world) initialise() {
	txn := w.cfg.Rows.DB.WriteTxn(w.table)
	w.ready(txn)
	txn.Commit()
}

// pass is a pass of the loop, whose main cursor has read everything.
func (w *world) pass() *Result { return w.passAt(w.cfg.Rows.Revision()) }

func (w *world) passAt(read statedb.Revision) *Result {
	ended, _ := w.Step(w.Context(), Pass{Now: w.now, Txn: w.cfg.Rows.DB.ReadTxn(), Read: read})
	return ended
}

// begin begins a listing, and waits for its end.
func (w *world) begin() {
	w.start()
	<-w.Ended
}

func (w *world) start() {
	w.Request(false)
	require.Nil(w, w.pass())
	require.NotNil(w, w.listing)
}

// adopt begins the adoption of a table that is not initialised.
func (w *world) adopt() {
	w.late()
	w.Adopt(w.now)
	w.begin()
	require.Nil(w, w.pass())
	require.True(w, w.Compares())
}

// finish ends a listing that worked.
func (w *world) finish() (out *Result) {
	for out == nil {
		w.looks = 0
		out = w.pass()
		require.LessOrEqual(w, w.looks, slice)
		at, more := w.Next(w.now, false)
		require.True(w, out != nil || more && at == w.now)
	}
	return out
}

// fails returns the error of a listing that has ended.
func (w *world) fails() error {
	out := w.pass()
	require.NotNil(w, out)
	return out.Err
}

// repaired returns the rows that are to be repaired.
func (w *world) repaired() (ids []uint64) {
	for r, revision := range w.table.All(w.cfg.Rows.DB.ReadTxn()) {
		if w.wants != nil && w.wants(r, revision) {
			ids = append(ids, r.id)
		}
	}
	return ids
}

func (w *world) attempt(op core.Operation[row], cause core.Cause) {
	op.Turn.Cause = cause
	w.Note([]core.Operation[row]{op})
}

func (w *world) ended(id uint64) { w.attempt(core.Operation[row]{Row: row{id: id}}, core.CauseChange) }

// What was listed says nothing of a key of which an operation has ended since the listing began.
func TestKeyIsNotJudgedIfAnOperationEndedSinceTheListingBegan(t *testing.T) {
	w := play(t, nil)
	w.put(row{1, 1}, row{2, 1}, row{3, 1}, row{4, 1})
	w.listed = []row{{1, 9}, {2, 9}, {7, 1}, {8, 1}}
	w.begin()
	w.ended(1)
	w.ended(3)
	w.ended(7)
	out := w.finish()
	require.Equal(t, []uint64{8}, w.orphans)
	require.Equal(t, []uint64{2, 4}, w.repaired())
	require.Equal(t, 1, out.Record.Different)
	require.Equal(t, 1, out.Record.Missing)
	// An operation that ends before its repair has its turn ends the repair, too.
	w.ended(2)
	w.tracked[4] = true
	require.Empty(t, w.repaired())
	w.tracked[4] = false
	require.Equal(t, []uint64{4}, w.repaired())
	w.NoteRight(row{4, 1})
	require.Empty(t, w.repaired())
}

func TestOrphanIsInNeitherTheTableNorTheCore(t *testing.T) {
	w := play(t, nil)
	w.listed = []row{{1, 1}, {2, 1}, {3, 1}, {3, 1}}
	w.during = func(context.Context) { w.put(row{1, 1}) }
	w.begin()
	w.tracked[2] = true
	require.Nil(t, w.passAt(w.cfg.Rows.Revision()-1), "main has not passed the listing")
	w.finish()
	require.Equal(t, []uint64{3}, w.orphans)
}

// Changes wait for a slice of a resync, not for all of it. An orphan that is wanted, or was worked on, by the time it is
// its turn is left alone.
func TestManyOrphansAreJudgedAndHandedOutInSlices(t *testing.T) {
	w := play(t, nil)
	const n = 10 * slice
	for id := range uint64(n) {
		w.listed = append(w.listed, row{id + 1, 1})
	}
	w.put(row{n + 1, 1}, row{n + 2, 1})
	w.begin()
	for len(w.orphans) == 0 {
		require.Nil(t, w.pass())
	}
	first := len(w.orphans)
	w.put(row{n - 1, 1})
	w.tracked[n-2] = true
	w.ended(n - 3)
	w.ended(n + 1)
	out := w.finish()
	require.Len(t, w.orphans, n-3)
	for _, id := range []uint64{n - 1, n - 2, n - 3} {
		require.NotContains(t, w.orphans[first:], id)
	}
	require.Equal(t, n, out.Record.Orphan)
	require.Equal(t, 1, out.Record.Missing)
	require.Equal(t, []uint64{n + 2}, w.repaired())
}

// Changes also wait for a slice only if operations of many rows to repair have ended since the listing began.
func TestRepairsThatAreNotNeededAreDroppedInSlices(t *testing.T) {
	w := play(t, nil)
	const n = 10 * slice
	for id := range uint64(n + 3) {
		w.put(row{id + 1, 1})
	}
	w.listed = []row{{n + 2, 9}, {n + 3, 9}}
	w.begin()
	for id := range uint64(n) {
		w.ended(id + 1)
	}
	for range 10 {
		require.Nil(t, w.pass())
	}
	w.ended(n)
	w.ended(n + 3)
	out := w.finish()
	require.Equal(t, []int{1, 1}, []int{out.Record.Missing, out.Record.Different})
	require.Equal(t, []uint64{n + 1, n + 2}, w.repaired())
}

// A row is equal only if it is equal to all that was listed with its key.
func TestObjectThatIsListedTwice(t *testing.T) {
	w := play(t, nil)
	w.put(row{1, 1}, row{2, 1}, row{3, 1})
	w.listed = []row{{1, 1}, {1, 9}, {2, 9}, {2, 1}, {3, 1}, {3, 1}}
	w.begin()
	out := w.finish()
	require.Equal(t, []uint64{1, 2}, w.repaired())
	require.Equal(t, 2, out.Record.Different)

	w = play(t, nil)
	w.listed = []row{{1, 1}, {1, 9}, {2, 9}, {2, 1}, {3, 1}, {3, 1}, {4, 1}}
	w.adopt()
	require.False(t, w.Adopts(row{1, 1}) || w.Adopts(row{2, 1}) || w.Adopts(row{3, 1}))
	require.True(t, w.Adopts(row{4, 1}))
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
			w.put(row{1, 1}, row{2, 1})
			w.listed = []row{{1, 9}, {7, 1}}
			w.begin()
			require.EqualError(t, w.fails(), "resync: "+c.want)
			require.Nil(t, w.pass())
			require.Empty(t, w.orphans)
			require.Empty(t, w.repaired())
		})
	}
}

func TestListingEndsWithTheLoop(t *testing.T) {
	w := play(t, nil)
	w.during = func(ctx context.Context) { <-ctx.Done() }
	w.listed = []row{{7, 1}}
	w.start()
	require.False(t, w.Holds())
	require.NotZero(t, w.State(0).Listing)
	w.Stop()
	<-w.Ended
	require.Zero(t, w.State(0).Listing)
	require.Nil(t, w.pass(), "a stop is no failure")
	require.Empty(t, w.State(0).Failure)
}

// The loop may still look at a listing that its end has cut short.
func TestListingThatIsCutShortIsNoResult(t *testing.T) {
	for _, when := range []string{"while it lists", "while it looks for missing rows"} {
		ctx, cancel := context.WithCancel(t.Context())
		w := play(t, func(cfg *Config[row]) {
			cfg.Kind = func(statedb.ReadTxn, row, statedb.Revision) status.Kind { cancel(); return status.KindDone }
		})
		var rows []row
		for id := range uint64(3000) {
			rows = append(rows, row{id + 1, 1})
		}
		w.put(rows...)
		if when == "while it lists" {
			w.during = func(context.Context) { cancel() }
		}
		w.Step(ctx, Pass{Txn: w.cfg.Rows.DB.ReadTxn()})
		<-w.Ended
		require.ErrorIs(t, w.fails(), context.Canceled, when)
		require.Empty(t, w.repaired(), when)
	}
}

func TestOrphansOnlyJudgesNoRow(t *testing.T) {
	w := play(t, func(cfg *Config[row]) { cfg.OrphansOnly, cfg.Equal, cfg.Diff = true, nil, nil })
	w.put(row{1, 1}, row{2, 1})
	w.listed = []row{{1, 9}, {7, 1}}
	w.begin()
	w.finish()
	require.Equal(t, []uint64{7}, w.orphans)
	require.Empty(t, w.repaired())
}

func TestObjectsWithoutAKeyAreLeftAlone(t *testing.T) {
	w := play(t, nil)
	w.listed = []row{{0, 1}, {7, 1}}
	w.begin()
	out := w.finish()
	require.Equal(t, []uint64{7}, w.orphans)
	require.EqualError(t, out.Err, "resync: 1 of 2 listed objects are left alone: the primary index makes no key of the object")
}

func TestFirstListingIsComparedWithRowsThatComeLater(t *testing.T) {
	w := play(t, nil)
	w.listed = []row{{1, 1}, {2, 1}, {3, 9}, {8, 1}}
	w.adopt()
	require.False(t, w.Holds())
	require.True(t, w.Adopts(row{1, 1}))
	require.True(t, w.Adopts(row{1, 1}), "it was not run")
	require.False(t, w.Adopts(row{1, 2}))
	w.attempt(core.Operation[row]{Row: row{1, 1}}, core.CauseAdopted)
	require.True(t, w.Adopts(row{1, 1}), "a new wish does not matter")
	w.attempt(core.Operation[row]{Row: row{1, 1}}, core.CauseAdopted)
	w.ended(1)
	require.False(t, w.Adopts(row{1, 1}), "an operation of the key has ended")
	require.False(t, w.Adopts(row{3, 1}))
	w.ended(3)
	require.False(t, w.Adopts(row{3, 9}))
	w.attempt(core.Operation[row]{Row: row{2, 1}, Deleted: true}, core.CauseChange)
	require.False(t, w.Adopts(row{2, 1}))
	w.ended(4)
	w.initialise()
	record := w.pass().Record
	record.Started = time.Time{}
	require.Equal(t, inspect.Resync{Adopts: true, Listed: 4, Equal: 1, Different: 1, Missing: 1,
		Differences: []inspect.Difference{{Key: "3", Kind: "different", Diff: "0 != 9"}}}, record)
	require.False(t, w.Adopts(row{8, 1}))
}

func TestWaitForTheFirstListingEnds(t *testing.T) {
	w := play(t, nil)
	w.late()
	w.now, w.err = time.Second, errors.New("down")
	w.Adopt(w.now)
	w.begin()
	require.ErrorContains(t, w.fails(), "down")
	at, ok := w.Next(w.now, true)
	require.True(t, ok)
	require.Equal(t, 2*time.Second, at, "the backoff, also while the loop is paused")
	w.set.MinBackoff, w.set.MaxBackoff = time.Hour, time.Hour
	w.now = at
	w.begin()
	require.ErrorContains(t, w.fails(), "down")
	at, _ = w.Next(w.now, false)
	require.Equal(t, 31*time.Second, at)
	w.now = at - 1
	require.Nil(t, w.pass())
	require.True(t, w.Holds())
	require.Empty(t, w.State(w.now).Trouble)
	w.now = at
	require.Nil(t, w.pass())
	require.False(t, w.Holds())
	require.Equal(t, "no listing of the target has worked within ListTimeout of the start: objects are applied without a comparison", w.State(w.now).Trouble)

	w.err, w.listed = nil, []row{{1, 1}}
	w.initialise()
	w.begin()
	w.finish()
	require.Empty(t, w.State(time.Hour).Trouble)
}

// What the first listing found is forgotten if the table is not initialised in time.
func TestFirstListingIsForgotten(t *testing.T) {
	for _, initialized := range []bool{false, true} {
		w := play(t, nil)
		w.put(row{9, 1})
		w.listed = []row{{1, 1}}
		w.adopt()
		if w.attempted = 0; initialized {
			w.initialise()
		}
		w.now = 30*time.Second - 1
		w.pass()
		require.True(t, w.Adopts(row{1, 1}))
		w.now = 30 * time.Second
		w.pass()
		require.Equal(t, initialized, w.Adopts(row{1, 1}))
	}
}

func TestFirstListingThatComesTooLateIsNotUsed(t *testing.T) {
	w := play(t, nil)
	w.late()
	w.Adopt(0)
	w.listed = []row{{1, 1}}
	blocks := make(chan struct{})
	w.during = func(context.Context) { <-blocks }
	w.start()
	w.now = 30 * time.Second
	require.Nil(t, w.pass())
	require.NotEmpty(t, w.State(w.now).Trouble)
	close(blocks)
	<-w.Ended
	require.Nil(t, w.pass())
	require.Empty(t, w.State(w.now).Trouble, "a listing has worked")
	require.False(t, w.Adopts(row{1, 1}))
	w.initialise()
	require.Nil(t, w.pass())
	require.NotNil(t, w.listing, "the target is listed again")
}

// Rows that are written meanwhile keep the comparison going once.
func TestComparisonIsProlongedOnce(t *testing.T) {
	w := play(t, nil)
	w.adopt()
	w.put(row{1, 1})
	w.initialise()
	w.attempted = 0
	require.Nil(t, w.pass())
	w.attempted = w.cfg.Rows.Revision()
	w.put(row{2, 1})
	require.Nil(t, w.pass(), "row 2 was written meanwhile")
	w.put(row{3, 1})
	require.Nil(t, w.pass(), "row 2 was not attempted")
	w.attempted++
	require.True(t, w.pass().Record.Adopts)
	require.False(t, w.Compares())
}

func TestRefusedRowIsNotAdopted(t *testing.T) {
	w := play(t, nil)
	w.listed = []row{{1, 1}, {2, 1}}
	w.Refuse(row{1, 0})
	w.adopt()
	require.False(t, w.Adopts(row{1, 1}))
	require.True(t, w.Adopts(row{2, 1}))
	w.now = time.Hour
	w.pass()
	require.False(t, w.Compares())
	w.Refuse(row{2, 0})
	w.Adopt(w.now)
	w.begin()
	w.pass()
	require.True(t, w.Adopts(row{2, 1}), "that was before the start")
}

func TestLongListingIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t, nil)
		w.during = func(ctx context.Context) { <-ctx.Done() }
		w.start()
		at, ok := w.Next(0, false)
		require.True(t, ok)
		require.Equal(t, 30*time.Second, at)
		require.Empty(t, w.State(30*time.Second-1).Trouble)
		require.Contains(t, w.State(30*time.Second).Trouble, "the listing of the target runs since 2000-01-01T")
		_, ok = w.Next(30*time.Second, false)
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
				w.put(row{id, r.IntN(2)})
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
					w.put(row{id, 5})
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
		require.Equal(t, orphans, w.orphans)
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
	w.listed = []row{{1, 1}, {2, 1}}
	w.adopt()
	require.False(t, w.Adopts(row{1, 1}))
	require.False(t, w.Adopts(row{2, 1}))
	require.Equal(t, 1, panics)
	w.initialise()
	require.True(t, w.pass().Record.Adopts)
}
