// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// slowList makes each listing take a time.
func slowList(d time.Duration) func(*env, *world, *reconciler.Config[*object]) {
	return func(_ *env, w *world, _ *reconciler.Config[*object]) {
		w.set(nil, func(context.Context) { time.Sleep(d) })
	}
}

// first has each call begin with f.
func (x *target) first(f func(ctx context.Context, c call)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.before = f
}

type listFunc func(ctx context.Context, txn statedb.ReadTxn, yield func(*object) bool) error

func (f listFunc) List(ctx context.Context, txn statedb.ReadTxn, yield func(*object) bool) error {
	return f(ctx, txn, yield)
}

// A program calls Reapply because something has changed that operations read, and a listing cannot show.
func TestReapplyDuringTheFirstListingIsCarriedOut(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows, change: slowList(5 * time.Second)}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.NoError(e, err)
		e.pass(time.Minute)
		require.Equal(e, []string{"update(1)"}, w.changes())
	})
}

// Somebody asks for another run, although the object is there.
func TestRefreshingRowIsNotAdopted(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows, change: slowList(5 * time.Second)}, func(e *env, w *world, _ func()) {
		if e.loop.Config().Clone == nil {
			return
		}
		e.pass(time.Second)
		e.write(func(wtxn statedb.WriteTxn) {
			_, _, _ = e.table.Insert(wtxn, &object{ID: 1, Value: 1, Status: reconciler.StatusRefreshing()})
		})
		e.pass(time.Minute)
		require.Equal(e, []string{"update(1)"}, w.changes())
	})
}

func TestBreakerDoesNotProbeWithEqualRows(t *testing.T) {
	equal := map[uint64]int{4: 1, 5: 1, 6: 1, 7: 1, 8: 1}
	resyncing(t, begin{target: equal, rows: map[uint64]int{1: 1, 2: 1, 3: 1}, late: true, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		w.failing("down")
	}}, func(e *env, w *world, done func()) {
		e.pass(20 * time.Millisecond)
		require.EqualValues(e, 1, e.loop.Figures().BreakerOpenings)
		e.put(1, 4, 5, 6, 7, 8)
		done()
		e.pass(10 * time.Second)
		w.failing("")
		e.pass(time.Minute)
		for _, op := range w.changes() {
			for id := range equal {
				require.NotContains(e, op, fmt.Sprintf("update(%d)", id))
			}
		}
	}, breaksAfter(3))
}

func TestAdoptionDoesNotCloseTheBreaker(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1}
	target := map[uint64]int{4: 1, 5: 1, 6: 1}
	resyncing(t, begin{target: target, rows: rows, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		w.failing("down")
	}}, func(e *env, w *world, _ func()) {
		e.pass(50 * time.Millisecond)
		b := e.loop.Snapshot(e.Context())
		require.Equal(e, 1, int(e.loop.Figures().BreakerOpenings), "%v", b.Summary())
	}, breaksAfter(3))
}

func TestFailuresCountForTheBreakerAcrossAdoptedRows(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1}
	target := map[uint64]int{2: 1, 4: 1, 6: 1}
	resyncing(t, begin{target: target, rows: rows, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		w.failing("down")
	}}, func(e *env, w *world, _ func()) {
		e.pass(50 * time.Millisecond)
		require.Equal(e, 1, int(e.loop.Figures().BreakerOpenings))
	}, breaksAfter(3))
}

func TestRowsThatAlwaysDifferDoNotStarveOthers(t *testing.T) {
	rows := map[uint64]int{}
	for id := range uint64(30) {
		rows[id+1] = 1
	}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		drift := func() {
			held := w.holds()
			for id := range uint64(29) {
				held[id+1] = 5
			}
			w.as(held)
		}
		held := w.holds()
		delete(held, 30)
		w.as(held)
		for range 60 {
			drift()
			e.pass(10 * time.Second)
		}
		require.Contains(e, w.holds(), uint64(30))
	}, reconciler.WithSettings(func(s *reconciler.Settings) {
		s.ResyncInterval, s.RefreshLimiter = 10*time.Second, rate.NewLimiter(1, 1)
	}))
}

// The loop is in an operation when the time is over.
func TestFirstListingIsKeptIfTheSourcesAreCompleteInTime(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{1: 1, 2: 1, 3: 9}, late: true, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		w.first(func(_ context.Context, c call) {
			if c.id == 3 {
				time.Sleep(10 * time.Second)
			}
		})
	}}, func(e *env, w *world, done func()) {
		e.pass(25 * time.Second)
		e.put(1, 3)
		e.pass(2 * time.Second)
		e.put(1, 1, 2)
		done()
		e.pass(time.Minute)
		require.Equal(e, []string{"update(3)"}, w.changes())
	})
}

func TestListTimeoutChangesWhileTheLoopWaits(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	for _, to := range []time.Duration{0, 2 * time.Second} {
		resyncing(t, begin{rows: rows, change: func(_ *env, w *world, _ *reconciler.Config[*object]) {
			w.set(nil, func(ctx context.Context) { <-ctx.Done() })
		}}, func(e *env, w *world, _ func()) {
			e.pass(time.Second)
			require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.ListTimeout = to }))
			e.pass(5 * time.Second)
			require.Equal(e, []string{"update(1)", "update(2)"}, w.changes())
		})
	}
}

func TestListTimeoutThatNeverEnds(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{1: 1, 2: 1}, late: true, change: slowList(time.Second)}, func(e *env, w *world, done func()) {
		e.pass(5 * time.Second)
		e.put(1, 1, 2)
		done()
		e.pass(time.Hour)
		require.Empty(e, w.changes())
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.ListTimeout = math.MaxInt64 }))
}

func TestStopIsNoFailureOfAListing(t *testing.T) {
	rows := map[uint64]int{1: 1}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		w.set(nil, func(ctx context.Context) { <-ctx.Done() })
		e.loop.Resync()
		e.pass(time.Second)
		e.stop()
		require.Zero(e, e.loop.Figures().PruneErrors)
		for _, r := range e.loop.Rounds() {
			if r.Resync != nil {
				require.Empty(e, r.Resync.Error)
			}
		}
	})
}

func TestStopWritesOutcomesBeforeItWaitsForAListing(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		if e.loop.Settings().Concurrency == 1 {
			return
		}
		e.pass(time.Second)
		hangs := make(chan struct{})
		w.set(nil, func(context.Context) { <-hangs })
		e.loop.Resync()
		e.pass(time.Second)
		w.first(func(context.Context, call) { time.Sleep(time.Second) })
		e.put(2, 1)
		e.pass(500 * time.Millisecond)
		stopped := make(chan struct{})
		go func() { e.stop(); close(stopped) }()
		e.pass(time.Minute)
		select {
		case <-stopped:
		default:
			e.Log("the stop waits for the listing")
		}
		kind := e.told(1).Kind
		close(hangs)
		<-stopped
		e.stop = func() {}
		require.Equal(e, reconciler.StatusKindDone, kind, "the operation ended long ago")
	})
}

func TestDiffThatPanicsKeepsNothingFromItsRepair(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows, change: func(_ *env, _ *world, cfg *reconciler.Config[*object]) {
		cfg.Diff = func(_, _ *object) string { panic("diff") }
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		w.as(map[uint64]int{1: 7, 2: 1, 9: 1})
		e.loop.Resync()
		e.pass(time.Minute)
		require.Equal(e, rows, w.holds())
	})
}

func TestRepairThatProbesHasTheStatusOfARefresh(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		cfg := e.loop.Config()
		if cfg.Clone == nil {
			return
		}
		e.pass(time.Second)
		var kinds []reconciler.StatusKind
		w.target.mutate = func(o *object) {
			if o.ID == 4 {
				kinds = append(kinds, o.Status.Kind)
			}
		}
		if cfg.BatchOperations != nil || cfg.RoundOperations != nil {
			return
		}
		w.failing("down")
		e.put(2, 1, 2, 3)
		e.pass(5 * time.Millisecond)
		held := w.holds()
		delete(held, 4)
		w.as(held)
		e.loop.Resync()
		e.pass(time.Minute)
		require.NotEmpty(e, kinds)
		for _, kind := range kinds {
			require.Contains(e, []reconciler.StatusKind{reconciler.StatusKindPending, reconciler.StatusKindRefreshing}, kind, "%v", kinds)
		}
	}, breaksAfter(3))
}

func TestWhatARepairSetsIsWritten(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{rows: rows, change: func(e *env, w *world, cfg *reconciler.Config[*object]) {
		var n atomic.Int32
		w.target.mutate = func(o *object) {
			if cfg.Clone != nil {
				o.Note = fmt.Sprint("id ", n.Add(1))
			}
		}
	}}, func(e *env, w *world, _ func()) {
		cfg := e.loop.Config()
		if cfg.Clone == nil || cfg.BatchOperations != nil || cfg.RoundOperations != nil {
			return
		}
		e.pass(time.Second)
		require.Contains(e, []string{"id 1", "id 2"}, e.get(1).Note)
		w.as(map[uint64]int{2: 1})
		e.loop.Resync()
		e.pass(time.Second)
		require.Equal(e, rows, w.holds())
		require.Equal(e, "id 3", e.get(1).Note)
	})
}

func TestRewrittenRowIsComparedAgain(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{1: 1}, rows: map[uint64]int{1: 1}, late: true}, func(e *env, w *world, done func()) {
		e.pass(time.Second)
		e.done(1)
		e.put(1, 1)
		e.pass(time.Second)
		done()
		e.pass(time.Second)
		require.Empty(e, w.changes())
	})
}

func TestTargetIsListedAgainAfterAPause(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows, change: slowList(time.Second)}, func(e *env, w *world, _ func()) {
		e.loop.Pause()
		e.pass(10 * time.Minute)
		w.as(nil)
		w.first(func(context.Context, call) { time.Sleep(5 * time.Second) })
		e.loop.Resume()
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		if _, err := e.loop.WaitFor(ctx, reconciler.Applied, &object{ID: 1}, &object{ID: 2}); err == nil {
			require.Equal(e, rows, w.holds(), "a wait says that the objects are applied")
		}
	})
}

// Another reconciler of the rows writes its statuses meanwhile.
func TestRowsThatAreRewrittenBeforeTheirTurnAreCompared(t *testing.T) {
	rows, target, others := map[uint64]int{1: 1}, map[uint64]int{}, []uint64{}
	for id := range uint64(10) {
		rows[id+2], target[id+2], others = 1, 1, append(others, id+2)
	}
	resyncing(t, begin{target: target, rows: rows}, func(e *env, w *world, _ func()) {
		w.first(func(_ context.Context, c call) {
			if c.id == 1 {
				e.put(1, others...)
			}
		})
		e.pass(time.Minute)
		require.Equal(e, []string{"update(1)"}, w.changes())
		e.done(others...)
	}, reconciler.WithRoundLimits(2, nil))
}

func TestHealthIsGoodAfterALateListing(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{1: 1}, rows: map[uint64]int{1: 1}, late: true, change: slowList(35 * time.Second)}, func(e *env, w *world, done func()) {
		e.pass(32 * time.Second)
		level, _, _ := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		e.pass(time.Hour)
		level, message, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level, message)
	})
}

// What was listed is forgotten, and nothing waits for another first listing: orphans are found all the same.
func TestOrphansAreDeletedAfterAPauseWithoutAListTimeout(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{9: 1}, rows: map[uint64]int{1: 1, 2: 1}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		require.Len(e, w.changes(), 1, "the other row waits for a permit")
		require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.ListTimeout = 0 }))
		e.loop.Pause()
		e.pass(time.Second)
		e.loop.Resume()
		e.pass(time.Hour)
		require.Equal(e, map[uint64]int{1: 1, 2: 1}, w.holds())
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.OperationLimiter = rate.NewLimiter(rate.Every(time.Minute), 1) }))
}

func TestObjectsPausedDuringTheFirstListing(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1, 3: 1}
	resyncing(t, begin{target: map[uint64]int{1: 1, 2: 5}, rows: rows, change: func(_ *env, w *world, cfg *reconciler.Config[*object]) {
		slowList(5*time.Second)(nil, w, cfg)
		cfg.SerialBy = func(*object) string { return "all" }
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		require.NoError(e, e.loop.PauseOnly("2"))
		e.pass(10 * time.Second)
		require.Equal(e, []string{"update(3)"}, w.changes())
		e.done(1, 3)
		require.Equal(e, inspect.StatePaused, e.loop.Explain(e.Context(), "2").State)
		e.remove(2)
		e.pass(time.Second)
		require.Empty(e, w.changes())
		w.set(nil, nil)
		e.loop.Resync()
		e.pass(time.Second)
		require.Empty(e, w.changes(), "its deletion is paused")
		require.Zero(e, e.resync().Orphan)
		require.NoError(e, e.loop.PauseOnly())
		e.pass(time.Second)
		require.Equal(e, []string{"delete(2)"}, w.changes())
	})
}

func TestBlockedRowsWaitOnOverAResync(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: map[uint64]int{1: 1}, rows: rows, change: func(_ *env, w *world, _ *reconciler.Config[*object]) {
		w.deciding(func(c call) error { return reconciler.Blocked("no device") })
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		e.done(1)
		require.Equal(e, reconciler.StatusKindBlocked, e.told(2).Kind)
		w.take()
		w.as(map[uint64]int{2: 4})
		e.loop.Resync()
		e.pass(50 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindBlocked, e.told(1).Kind)
		require.Equal(e, reconciler.StatusKindBlocked, e.told(2).Kind)
		require.Equal(e, 1, e.resync().Missing)
		require.Equal(e, 0, e.resync().Different)
		w.deciding(nil)
		e.pass(2 * time.Minute)
		e.done(1, 2)
		require.Equal(e, rows, w.holds())
	})
}

func TestRowsComeAndGoWhileListed(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		for _, late := range []time.Duration{0, time.Nanosecond, time.Millisecond} {
			w.set(nil, func(context.Context) {
				e.remove(1, 4)
				time.Sleep(late)
				e.put(2, 1)
				e.remove(2)
				e.put(1, 4)
			})
			e.loop.Resync()
			e.pass(time.Second)
			require.Equal(e, map[uint64]int{1: 2, 3: 1, 4: 1}, w.holds())
			e.done(1, 3, 4)
			w.set(nil, nil)
			e.put(1, 1, 2, 3, 4)
			e.pass(time.Second)
			w.take()
			e.loop.Resync()
			e.pass(time.Second)
			require.Empty(e, w.changes())
			require.Equal(e, inspect.Resync{Listed: 4, Equal: 4}, e.resync())
		}
	})
}

func TestOrphanThatIsWantedInAPause(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{9: 1}, rows: map[uint64]int{1: 1}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		w.as(map[uint64]int{1: 1, 8: 1, 9: 1})
		w.take()
		w.set(nil, func(context.Context) { time.Sleep(time.Second) })
		e.loop.Resync()
		e.pass(500 * time.Millisecond)
		e.loop.Pause()
		e.pass(time.Second)
		e.put(1, 9)
		e.pass(time.Second)
		e.loop.Resume()
		e.pass(time.Second)
		require.Equal(e, []string{"delete(8)", "update(9)"}, w.changes())
	})
}

func TestOrphanThatIsWantedWhileItsDeletionFails(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{9: 1}, rows: map[uint64]int{1: 1}, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		w.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("busy")
			}
			return nil
		})
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		w.take()
		e.put(2, 9)
		e.pass(time.Minute)
		require.Equal(e, []string{"update(9)"}, w.changes())
		require.Equal(e, map[uint64]int{1: 1, 9: 2}, w.holds())
		e.loop.Resync()
		e.pass(time.Minute)
		require.Empty(e, w.changes())
		require.Equal(e, inspect.Resync{Listed: 2, Equal: 2}, e.resync())
	})
}

func TestWhatWasListedIsNotKept(t *testing.T) {
	rows := map[uint64]int{}
	for id := range uint64(100) {
		rows[id+1] = 1
	}
	var mu sync.Mutex
	var listed []weak.Pointer[object]
	alive := func() (n int) {
		runtime.GC()
		runtime.GC()
		mu.Lock()
		defer mu.Unlock()
		for _, p := range listed {
			if p.Value() != nil {
				n++
			}
		}
		return n
	}
	resyncing(t, begin{target: rows, rows: rows, change: func(_ *env, w *world, cfg *reconciler.Config[*object]) {
		listed = nil
		cfg.Lister = listFunc(func(ctx context.Context, txn statedb.ReadTxn, yield func(*object) bool) error {
			return w.List(ctx, txn, func(o *object) bool {
				mu.Lock()
				listed = append(listed, weak.Make(o))
				mu.Unlock()
				return yield(o)
			})
		})
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		require.Zero(e, alive(), "after the adoption")
		held := w.holds()
		held[1], held[2] = 7, 7
		w.as(held)
		e.loop.Resync()
		e.pass(time.Minute)
		require.Zero(e, alive(), "after a resync")
		w.set(errors.New("no"), nil)
		e.loop.Resync()
		e.pass(time.Second)
		require.Zero(e, alive(), "after a listing that has failed")
		require.GreaterOrEqual(e, len(listed), 400)
	})
}

// A repair that waits when its row is paused runs when it is resumed.
func TestPausedRowIsRepairedWhenItIsResumed(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1, 3: 1}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		w.as(map[uint64]int{1: 7, 2: 7, 3: 7})
		e.loop.Resync()
		e.pass(0)
		require.NoError(e, e.loop.PauseOnly("1", "2", "3"))
		e.pass(time.Minute)
		require.NotEqual(e, rows, w.holds())
		e.loop.Resume()
		e.pass(time.Minute)
		require.Equal(e, rows, w.holds())
		e.done(1, 2, 3)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.RefreshLimiter = rate.NewLimiter(1, 1) }))
}

func TestExplainNamesARepairThatWaits(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1, 3: 1}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		w.as(map[uint64]int{1: 7, 2: 1})
		e.loop.Resync()
		e.pass(0)
		require.Contains(e, e.loop.Explain(e.Context(), "3").Why, "a resync has found it missing in the target")
		e.pass(3 * time.Second)
		require.Contains(e, e.loop.Explain(e.Context(), "3").Why, "it is in the target")
		require.Equal(e, rows, w.holds())
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.RefreshLimiter = rate.NewLimiter(1, 1) }))
}
