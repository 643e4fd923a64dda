// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// world is a target that can be listed with its values.
type world struct {
	*target
	mu sync.Mutex
	// fail is the error of a listing; during is called in the middle of one.
	fail   error
	during func(ctx context.Context)
	lists  int
}

// as sets what the target has.
func (w *world) as(state map[uint64]int) {
	w.target.mu.Lock()
	defer w.target.mu.Unlock()
	w.state = map[uint64]int{}
	maps.Copy(w.state, state)
}

// set makes the listings from now on fail, and call during.
func (w *world) set(fail error, during func(ctx context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail, w.during = fail, during
}

func (w *world) listed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists
}

func (w *world) List(ctx context.Context, _ statedb.ReadTxn, yield func(*object) bool) error {
	w.mu.Lock()
	w.lists++
	fail, during := w.fail, w.during
	w.mu.Unlock()
	held := w.holds()
	for i, id := range slices.Sorted(maps.Keys(held)) {
		if i == len(held)/2 && during != nil {
			during(ctx)
		}
		if !yield(&object{ID: id, Value: held[id]}) {
			return nil
		}
	}
	if len(held) == 0 && during != nil {
		during(ctx)
	}
	return fail
}

// begin is how a test of a resync begins: with what the target has, and with the rows of the table.
type begin struct {
	target, rows map[uint64]int
	// late: the table is initialised when done is called.
	late   bool
	change func(e *env, w *world, cfg *reconciler.Config[*object])
}

// resyncing runs a test with each ledger, each kind of operations, and 1 and 4 workers. done ends the initialiser of
// the table.
func resyncing(t *testing.T, b begin, test func(e *env, w *world, done func()), options ...reconciler.Option) {
	for _, ledger := range []string{"rows", "beside"} {
		for _, kind := range []string{"single", "batches", "rounds"} {
			for _, workers := range []int{1, 4} {
				t.Run(fmt.Sprintf("%s, %s, workers %d", ledger, kind, workers), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						e := newEnv(t)
						w := &world{target: e.target}
						w.as(b.target)
						done := func() {}
						if b.late {
							e.write(func(wtxn statedb.WriteTxn) {
								end := e.table.RegisterInitializer(wtxn, "source")
								done = func() { e.write(end) }
							})
						}
						for _, id := range slices.Sorted(maps.Keys(b.rows)) {
							e.put(b.rows[id], id)
						}
						cfg := e.config(append(slices.Clone(options), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))...)
						cfg.Lister, cfg.Equal = w, func(wanted, found *object) bool { return wanted.Value == found.Value }
						cfg.Diff = func(wanted, found *object) string { return fmt.Sprintf("%d != %d", wanted.Value, found.Value) }
						operate(kind)(e, &cfg)
						if ledger == "beside" {
							beside(e, &cfg)
						}
						if b.change != nil {
							b.change(e, w, &cfg)
						}
						e.start(cfg)
						test(e, w, done)
						synctest.Wait()
						e.stop()
						require.False(t, w.overlap, "operations overlapped")
					})
				})
			}
		}
	}
}

// resync returns the record of the last resync, without its times.
func (e *env) resync() inspect.Resync {
	e.Helper()
	r := e.loop.Snapshot(e.Context()).Resync
	require.NotNil(e, r, "there was no resync")
	was := *r
	was.Started, was.Took = time.Time{}, 0
	return was
}

// changes returns the operations so far, sorted. In the rows a repair is called as a refresh.
func (w *world) changes() (ops []string) {
	for _, op := range w.ops() {
		ops = append(ops, strings.ReplaceAll(op, "refresh", "update"))
	}
	slices.Sort(ops)
	return ops
}

// causes returns the cause of the last operation on each object of the journal.
func (e *env) causes() map[string]inspect.Cause {
	causes := map[string]inspect.Cause{}
	for _, event := range e.loop.Operations(inspect.OperationQuery{}) {
		causes[event.Key] = event.Cause
	}
	return causes
}

func (e *env) done(ids ...uint64) {
	e.Helper()
	for _, id := range ids {
		require.Equal(e, reconciler.StatusKindDone, e.told(id).Kind, "object %d", id)
	}
}

func TestWhatIsEqualAtTheStartIsAdopted(t *testing.T) {
	resyncing(t, begin{
		target: map[uint64]int{1: 1, 2: 1, 3: 9, 8: 1, 9: 1},
		rows:   map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1},
	}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		require.Equal(e, []string{"delete(8)", "delete(9)", "update(3)", "update(4)"}, w.changes())
		require.Equal(e, map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1}, w.holds())
		e.done(1, 2, 3, 4)
		require.Equal(e, map[string]inspect.Cause{
			"1": inspect.CauseAdopted, "2": inspect.CauseAdopted, "3": inspect.CauseChange, "4": inspect.CauseChange,
			"8": inspect.CauseOrphan, "9": inspect.CauseOrphan,
		}, e.causes())
		f := e.loop.Figures()
		require.EqualValues(e, 2, f.Adopted)
		require.EqualValues(e, 2, f.Updates.Done)
		require.EqualValues(e, 1, f.Prunes.Count, "the first listing looks for no orphans")
		require.True(e, e.loop.Snapshot(e.Context()).Lists)
		rest, err := e.loop.WaitAll(e.Context(), reconciler.Applied)
		require.NoError(e, err)
		require.Empty(e, rest.Keys)
		for _, r := range e.loop.Rounds() {
			if r.Resync != nil {
				require.Equal(e, inspect.Resync{
					Adopts: true, Listed: 5, Equal: 2, Different: 1, Missing: 1, Started: r.Resync.Started, Took: r.Resync.Took,
					Differences: []inspect.Difference{{Key: "3", Kind: inspect.Different, Diff: "1 != 9"}},
				}, *r.Resync)
				break
			}
		}
		require.Equal(e, inspect.Resync{
			Listed: 6, Equal: 4, Orphan: 2,
			Differences: []inspect.Difference{{Key: "8", Kind: inspect.Orphan}, {Key: "9", Kind: inspect.Orphan}},
		}, e.resync())
	})
}

func TestResyncRepairsWhatDiffers(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		e.pass(time.Minute)
		require.Empty(e, w.changes())
		w.as(map[uint64]int{1: 1, 2: 7, 4: 1, 5: 5})
		e.loop.Resync()
		e.pass(time.Second)
		require.Equal(e, []string{"delete(5)", "update(2)", "update(3)"}, w.changes())
		require.Equal(e, rows, w.holds())
		require.Equal(e, inspect.Resync{
			Listed: 4, Equal: 2, Different: 1, Missing: 1, Orphan: 1,
			Differences: []inspect.Difference{
				{Key: "2", Kind: inspect.Different, Diff: "1 != 7"}, {Key: "3", Kind: inspect.Missing}, {Key: "5", Kind: inspect.Orphan},
			},
		}, e.resync())
		causes := e.causes()
		require.Equal(e, inspect.CauseRepair, causes["2"])
		require.Equal(e, inspect.CauseRepair, causes["3"])
		e.done(1, 2, 3, 4)
	})
}

func TestNothingIsAppliedBeforeTheFirstListing(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{rows: rows, target: map[uint64]int{1: 1}, change: func(_ *env, w *world, _ *reconciler.Config[*object]) {
		w.set(nil, func(context.Context) { time.Sleep(10 * time.Second) })
	}}, func(e *env, w *world, _ func()) {
		e.pass(9 * time.Second)
		require.Empty(e, w.changes())
		require.Equal(e, reconciler.StatusKindPending, e.told(1).Kind)
		if outcomes := e.loop.Outcomes(); outcomes != nil {
			require.Zero(e, outcomes.NumObjects(e.db.ReadTxn()))
		}
		x := e.loop.Explain(e.Context(), "1")
		require.Equal(e, inspect.StateUnseen, x.State)
		require.Equal(e, "it waits for the first listing of the target, which shows whether the object is there already", x.Why)
		s := e.loop.Snapshot(e.Context())
		require.True(e, s.AwaitsListing)
		require.False(e, s.Listing.IsZero())
		require.Contains(e, s.Summary(), "waits for the first listing")
		e.pass(2 * time.Second)
		require.Equal(e, []string{"update(2)"}, w.changes())
		e.done(1, 2)
	})
}

// A listing that never works holds objects up no longer than ListTimeout. The first one that works is a resync.
func TestListingThatNeverWorksHoldsNothingUpForLong(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	for name, during := range map[string]func(context.Context){
		"fails": nil, "hangs": func(ctx context.Context) { <-ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			resyncing(t, begin{rows: rows, target: map[uint64]int{1: 1, 9: 1}, change: func(_ *env, w *world, _ *reconciler.Config[*object]) {
				w.set(errors.New("interrupted"), during)
			}}, func(e *env, w *world, _ func()) {
				e.pass(30*time.Second - 1)
				require.Empty(e, w.changes())
				e.pass(time.Second)
				require.Equal(e, []string{"update(1)", "update(2)"}, w.changes())
				level, message, err := e.health.Now()
				require.Equal(e, cell.StatusDegraded, level)
				require.Contains(e, message, "the target is not listed")
				require.Error(e, err)
				require.False(e, e.loop.Snapshot(e.Context()).AwaitsListing)
				if during != nil {
					return
				}
				w.set(nil, nil)
				e.pass(2 * time.Minute)
				require.Equal(e, []string{"delete(9)"}, w.changes())
				level, _, _ = e.health.Now()
				require.Equal(e, cell.StatusOK, level)
				require.False(e, e.resync().Adopts)
			})
		})
	}
}

// Rows of sources that come after the start are compared, until the table is initialised.
func TestRowsThatComeLaterAreAdopted(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{1: 1, 2: 1, 9: 1}, late: true}, func(e *env, w *world, done func()) {
		e.pass(10 * time.Second)
		e.put(1, 1)
		e.pass(10 * time.Second)
		e.put(1, 2, 3)
		e.done(1)
		done()
		e.pass(time.Second)
		require.Equal(e, []string{"delete(9)", "update(3)"}, w.changes())
		e.done(1, 2, 3)
		e.remove(1)
		e.pass(time.Second)
		e.put(1, 1)
		e.pass(time.Second)
		require.Equal(e, []string{"delete(1)", "update(1)"}, w.changes(), "what was listed is forgotten")
	})
}

func TestAdoptionNeedsNoPermit(t *testing.T) {
	rows := map[uint64]int{}
	for id := range uint64(200) {
		rows[id+1] = 1
	}
	limiter := func() reconciler.Option {
		return reconciler.WithSettings(func(s *reconciler.Settings) { s.OperationLimiter = rate.NewLimiter(1, 1) })
	}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		e.done(ids(1, 200)...)
		require.Empty(e, w.changes())
	}, limiter())
}

func TestResyncAboveItsBudgetAwaitsApproval(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{1: 1, 8: 1, 9: 1}, rows: map[uint64]int{1: 2}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		require.Equal(e, []string{"update(1)"}, w.changes(), "a refused clean-up stops no apply")
		require.Contains(e, e.resync().Error, "the table has no row for 2 of the 3 objects")
		require.True(e, e.loop.ApproveResync())
		e.pass(time.Second)
		require.Equal(e, []string{"delete(8)", "delete(9)"}, w.changes())
	}, reconciler.WithOrphanBudget(1, 0))
}

func TestListerIsChecked(t *testing.T) {
	e := newEnv(t)
	w := &world{target: e.target}
	for want, change := range map[string]func(cfg *reconciler.Config[*object]){
		"Config.OrphansOnly is set, but Config.Lister is nil": func(cfg *reconciler.Config[*object]) {
			cfg.OrphansOnly = true
		},
		"Config.OrphansOnly and Config.Equal are both set": func(cfg *reconciler.Config[*object]) {
			cfg.Lister, cfg.OrphansOnly = w, true
			cfg.Equal = func(_, _ *object) bool { return true }
		},
		"Config.Equal is nil, but Config.Lister (*reconciler_test.getting) is a Getter, which needs it": func(cfg *reconciler.Config[*object]) {
			cfg.Lister = &getting{world: w}
		},
		"Config.Equal is set, but Config.Lister is nil": func(cfg *reconciler.Config[*object]) {
			cfg.Equal = func(_, _ *object) bool { return true }
		},
		"Settings.ResyncInterval is 1s, but Config.Lister is nil": func(cfg *reconciler.Config[*object]) {
			cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) { s.ResyncInterval = time.Second }))
		},
		"Settings.ListTimeout is -1s, must not be negative": func(cfg *reconciler.Config[*object]) {
			cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) { s.ListTimeout = -time.Second }))
		},
	} {
		cfg := e.config()
		change(&cfg)
		_, err := reconciler.New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// A listing is in no operation, although it runs beside some.
func TestListingIsNoOperation(t *testing.T) {
	rows := map[uint64]int{1: 1}
	var errs []error
	resyncing(t, begin{target: rows, rows: rows, change: func(_ *env, w *world, cfg *reconciler.Config[*object]) {
		errs = nil
		w.set(nil, func(ctx context.Context) {
			reconciler.Note(ctx, "a listing")
			errs = append(errs, reconciler.Checkpoint(ctx, &object{ID: 1}))
		})
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		for _, err := range errs {
			require.ErrorIs(e, err, reconciler.ErrNoOperation)
		}
		for _, event := range e.loop.Operations(inspect.OperationQuery{}) {
			require.Empty(e, event.Note)
		}
	})
}
