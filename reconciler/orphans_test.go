// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// lister is a target with a List method. It lists objects in the order of their IDs. The target
// records a listing as a call.
type lister struct {
	*target
	// during is called after all objects have been listed; it may be nil.
	during func(ctx context.Context, yield func(*object) bool)
	// twice: each object is listed two times.
	twice bool
}

func (s *lister) List(ctx context.Context, _ statedb.ReadTxn, yield func(*object) bool) error {
	s.starts(ctx)
	held := s.holds()
	for _, id := range slices.Sorted(maps.Keys(held)) {
		if !yield(&object{ID: id, Value: held[id]}) || s.twice && !yield(&object{ID: id}) {
			return nil
		}
	}
	if s.during != nil {
		s.during(ctx, yield)
	}
	return s.do(ctx, call{op: "list"})
}

// relisting runs a test with each kind of operations and with 1 and 8 workers, against a loop that looks for orphans at
// the start and when the test calls relist.
func relisting(t *testing.T, test func(e *env, s *lister), options ...reconciler.Option) {
	for _, kind := range []string{"single", "batches"} {
		for _, workers := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s, workers %d", kind, workers), func(t *testing.T) {
				var s *lister
				inBubble(t, func(e *env) { test(e, s) }, func(e *env, cfg *reconciler.Config[*object]) {
					s = &lister{target: e.target}
					cfg.Lister, cfg.OrphansOnly = s, true
					operate(kind)(e, cfg)
				}, append(slices.Clone(options), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.ResyncInterval = workers, 0 }))...)
			})
		}
	}
}

// strays adds objects without a row to the target.
func (x *target) strays(ids ...uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		x.state[id] = -1
	}
}

// relist lists the target now, and returns what the resync found.
func (e *env) relist() inspect.Resync {
	e.Helper()
	e.loop.Resync()
	synctest.Wait()
	return e.resync()
}

// ops returns the calls so far, sorted, without the listings.
func (x *target) ops() (calls []string) {
	for _, c := range x.take() {
		if c.op != "list" {
			calls = append(calls, c.String())
		}
	}
	slices.Sort(calls)
	return calls
}

func TestOnlyOrphansAreDeleted(t *testing.T) {
	relisting(t, func(e *env, s *lister) {
		e.put(1, ids(1, 50)...)
		// A row without a status is in the table as well, so its object is no orphan.
		e.write(func(wtxn statedb.WriteTxn) { _, _, _ = e.table.Insert(wtxn, &object{ID: 60}) })
		e.pass(time.Second)
		e.target.take()

		s.strays(60, 101, 102, 103)
		record := e.relist()
		require.Equal(e, 54, record.Listed)
		require.Equal(e, 3, record.Orphan)
		require.Empty(e, record.Error)
		e.pass(time.Second)
		require.Equal(e, []string{"delete(101)", "delete(102)", "delete(103)"}, e.target.ops())
		require.Len(e, e.target.holds(), 51)

		record = e.relist()
		require.Equal(e, inspect.Resync{Listed: 51}, record, "no orphans are left")
		require.Empty(e, e.target.ops())
	})
}

func TestOrphanDeletionIsRetriedUntilItsObjectIsInserted(t *testing.T) {
	relisting(t, func(e *env, s *lister) {
		s.strays(7, 8)
		s.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("in use")
			}
			return nil
		})
		e.relist()
		e.pass(350 * time.Millisecond)
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, "2 error(s)", message)
		require.EqualError(e, err, "in use\nin use")
		require.Len(e, s.ops(), 2*3)
		e.put(1, 7)
		e.pass(time.Second)
		require.Equal(e, []string{"delete(8) fail", "update(7)"}, s.ops())
		s.failing("")
		e.pass(time.Minute)
		e.eachDone()
		level, _, _ = e.health.Now()
		require.Equal(e, cell.StatusOK, level)
	})
}

// lasting makes every operation on an object take the time that f returns.
func (x *target) lasting(f func(c call) time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.before = func(_ context.Context, c call) {
		if c.op != "list" {
			time.Sleep(f(c))
		}
	}
}

// listings returns the times of the listings, relative to start.
func listings(start time.Time, calls []call) (at []time.Duration) {
	for _, c := range calls {
		if c.op == "list" {
			at = append(at, c.at.Sub(start))
		}
	}
	return at
}

func TestOrphansWaitUntilTheInitialLoadHasBeenAttempted(t *testing.T) {
	for _, kind := range []string{"single", "batches"} {
		var initialized func(statedb.WriteTxn)
		eachConcurrency(t, kind, func(e *env) {
			e.target.strays(1000)
			e.target.failingFor(3, errPlain)
			e.target.takes(50 * time.Millisecond)
			e.put(1, 1, 2, 3)
			e.pass(time.Minute)
			require.Empty(e, listings(time.Now(), e.target.take()), "the table is not initialised")
			e.put(1, ids(4, 14)...)
			e.write(initialized)
			// Later changes do not delay the listing, and a call of Prune does not make it earlier.
			for id := uint64(1001); id < 1200; id++ {
				e.loop.Prune()
				e.pass(20 * time.Millisecond)
				e.put(1, id)
			}
			calls := e.target.take()
			first := slices.IndexFunc(calls, func(c call) bool { return c.op == "list" })
			require.Positive(e, first, "while later changes come")
			attempted := map[uint64]bool{}
			for _, c := range calls[:first] {
				attempted[c.id] = true
			}
			for _, id := range ids(4, 14) {
				require.True(e, attempted[id], "object %d", id)
			}
			e.pass(time.Minute)
			require.NotContains(e, e.target.holds(), uint64(1000))
		}, func(e *env, cfg *reconciler.Config[*object]) {
			e.write(func(wtxn statedb.WriteTxn) { initialized = e.table.RegisterInitializer(wtxn, "load") })
			cfg.Lister, cfg.OrphansOnly = &lister{target: e.target}, true
			operate(kind)(e, cfg)
		}, reconciler.WithRoundLimits(4, nil), reconciler.WithRetry(time.Hour, time.Hour))
	}
}

func TestPausedReconcilerDoesNotList(t *testing.T) {
	relisting(t, func(e *env, s *lister) {
		s.strays(1, 2)
		e.loop.Pause()
		e.loop.Prune()
		e.pass(time.Hour)
		require.Empty(e, s.take())
		e.loop.PauseObjects(func(o *object) bool { return o.ID == 1 })
		e.pass(time.Second)
		require.Equal(e, []string{"delete(2)"}, s.ops(), "an orphan can be paused like any object")
		e.loop.Resume()
		e.pass(time.Second)
		require.Equal(e, []string{"delete(1)"}, s.ops())
	})
}
