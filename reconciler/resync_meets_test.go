// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
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

// writeOn writes rows again and again, with new values, until end is called.
func (e *env) writeOn(every time.Duration, ids ...uint64) (end func()) {
	ctx, cancel := context.WithCancel(e.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for value := 2; ctx.Err() == nil; value++ {
			e.put(value, ids...)
			time.Sleep(every)
		}
	}()
	return func() { cancel(); <-ended }
}

// The rows are written faster than their operations, so there is never a time when each row that the table has was attempted.
func TestRowsWrittenAllTheTimeKeepNoResyncBack(t *testing.T) {
	hot := ids(2, 9)
	resyncing(t, begin{target: map[uint64]int{1: 1, 99: 1}, rows: map[uint64]int{1: 1}, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		e.put(1, hot...)
		w.deciding(func(call) error { time.Sleep(5 * time.Millisecond); return nil })
	}}, func(e *env, w *world, _ func()) {
		end := e.writeOn(2*time.Millisecond, hot...)
		defer end()
		time.Sleep(2 * time.Second)
		require.NotNil(e, e.loop.Snapshot(e.Context()).Resync, "the comparison with the first listing goes on")
		require.NotContains(e, w.holds(), uint64(99), "the orphan")
		w.target.mu.Lock()
		delete(w.target.state, 1)
		w.target.mu.Unlock()
		e.loop.Resync()
		time.Sleep(2 * time.Second)
		require.Contains(e, w.holds(), uint64(1), "the row that was lost")
		end()
		e.pass(time.Second)
	})
}

// An operation runs through a pause, and ends during the listing that follows: that may show what was before.
func TestListingDuringAnOperationIsNotAdopted(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		var slow atomic.Bool
		resyncing(t, begin{target: map[uint64]int{1: 1}, late: true, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
			slow.Store(!deletes)
			value := 2
			if deletes {
				value = 1
			}
			e.put(value, 1)
			w.first(func(context.Context, call) {
				if slow.CompareAndSwap(true, false) {
					time.Sleep(5 * time.Second)
				}
			})
		}}, func(e *env, w *world, done func()) {
			e.pass(100 * time.Millisecond)
			if deletes {
				slow.Store(true)
				e.remove(1)
			}
			time.Sleep(time.Second)
			w.set(nil, func(context.Context) { time.Sleep(10 * time.Second) })
			e.loop.Pause()
			time.Sleep(100 * time.Millisecond)
			e.loop.Resume()
			e.pass(20 * time.Second)
			w.set(nil, nil)
			e.put(1, 1)
			_, err := e.loop.WaitFor(e.Context(), reconciler.Applied, &object{ID: 1})
			require.NoError(e, err)
			require.Equal(e, map[uint64]int{1: 1}, w.holds())
			done()
			e.pass(time.Minute)
		}, reconciler.WithSettings(func(s *reconciler.Settings) { s.ListTimeout = time.Hour }))
	}
}

// A server carries a call out after the client has given it up.
func TestRetryIsNotAdopted(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{1: 1}, late: true, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		e.put(2, 1)
		w.failing("deadline exceeded")
	}}, func(e *env, w *world, done func()) {
		e.pass(100 * time.Millisecond)
		e.loop.Pause()
		e.pass(100 * time.Millisecond)
		e.put(1, 1)
		w.failing("")
		e.loop.Resume()
		e.pass(time.Minute)
		require.Contains(e, w.changes(), "update(1)")
		done()
		e.pass(time.Minute)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.ListTimeout = time.Hour }))
}

// What the first listing has not may never have been applied by anybody.
func TestFirstStartIsNoDrift(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{1: 9}, rows: map[uint64]int{1: 1, 2: 1}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		f := e.loop.Figures()
		require.Zero(e, f.Missing+f.Different, "%d missing, %d different", f.Missing, f.Different)
		w.as(map[uint64]int{1: 9})
		e.loop.Resync()
		e.pass(time.Minute)
		f = e.loop.Figures()
		require.EqualValues(e, 1, f.Missing)
		require.EqualValues(e, 1, f.Different)
	})
}

func TestExplainNamesTheListingThatARowWaitsFor(t *testing.T) {
	rows := map[uint64]int{1: 1}
	explained := func(e *env) string { return e.loop.Explain(e.Context(), "1").String() }
	resyncing(t, begin{rows: rows, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		w.set(errors.New("connection refused"), nil)
	}}, func(e *env, w *world, _ func()) {
		e.pass(10 * time.Second)
		require.Contains(e, explained(e), "connection refused")
		w.set(nil, func(ctx context.Context) { <-ctx.Done() })
		e.pass(10 * time.Second)
		require.Contains(e, explained(e), "operations wait for a listing of the target, which runs since 2000-01-01T00:00")
		e.pass(20 * time.Second)
		require.NotContains(e, explained(e), "operations wait for a listing", "ListTimeout is over")
	})
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
