// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

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
	w.state = maps.Clone(state)
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
	for _, event := range e.loop.Events(inspect.EventQuery{}) {
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
			"8": inspect.CauseSweep, "9": inspect.CauseSweep,
		}, e.causes())
		f := e.loop.Figures()
		require.EqualValues(e, 2, f.Adopted)
		require.EqualValues(e, 2, f.Updates.Done)
		rest, err := e.loop.WaitAll(e.Context(), reconciler.Applied)
		require.NoError(e, err)
		require.Empty(e, rest.Keys)
		for _, r := range e.loop.Journal() {
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
