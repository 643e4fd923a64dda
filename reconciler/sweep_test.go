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
// records a listing as a prune.
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
	return s.do(ctx, call{op: "prune", id: uint64(len(held))})
}

// sweeping runs a test with each kind of operations and with 1 and 8 workers, against a loop that
// sweeps only when the test calls sweep.
func sweeping(t *testing.T, test func(e *env, s *lister), options ...reconciler.Option) {
	for _, kind := range []string{"single", "batches", "rounds"} {
		for _, workers := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s, workers %d", kind, workers), func(t *testing.T) {
				var s *lister
				inBubble(t, func(e *env) { test(e, s) }, func(e *env, cfg *reconciler.Config[*object]) {
					s = &lister{target: e.target}
					cfg.Sweeper = s
					operate(kind)(e, cfg)
				}, append(slices.Clone(options), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithoutPruning())...)
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

// sweep runs a sweep now and returns its record.
func (e *env) sweep() *inspect.Prune {
	e.Helper()
	e.loop.Prune()
	synctest.Wait()
	return e.swept()
}

// swept returns the record of the latest sweep.
func (e *env) swept() *inspect.Prune {
	e.Helper()
	journal := e.loop.Journal()
	for i := len(journal) - 1; i >= 0; i-- {
		if p := journal[i].Prune; p != nil {
			return p
		}
	}
	e.Fatal("nothing was swept")
	return nil
}

// ops returns the calls so far, sorted, without the listings.
func (x *target) ops() (calls []string) {
	for _, c := range x.take() {
		if c.op != "prune" {
			calls = append(calls, c.String())
		}
	}
	slices.Sort(calls)
	return calls
}

func TestSweepDeletesOnlyOrphans(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		e.put(1, ids(1, 50)...)
		// A row without a status is in the table as well, so its object is no orphan.
		e.write(func(wtxn statedb.WriteTxn) { _, _, _ = e.table.Insert(wtxn, &object{ID: 60}) })
		e.pass(time.Second)
		e.target.take()

		s.strays(60, 101, 102, 103)
		record := e.sweep()
		require.Equal(e, 54, record.Listed)
		require.Equal(e, 3, record.Swept)
		require.Empty(e, record.Error)
		e.pass(time.Second)
		require.Equal(e, []string{"delete(101)", "delete(102)", "delete(103)"}, e.target.ops())
		require.Len(e, e.target.holds(), 51)

		record = e.sweep()
		require.Equal(e, inspect.Prune{Listed: 51}, *record, "no orphans are left")
		require.Empty(e, e.target.ops())
	})
}

// A sweep deletes an orphan through the delete operation, with the listed object.
func TestSweptObjectIsDeletedAsItWasListed(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.strays(7)
		var deleted []reconciler.BatchEntry[*object]
		e.target.before = func(_ context.Context, c call) {
			if c.op == "delete" {
				deleted = append(deleted, reconciler.BatchEntry[*object]{Object: &object{ID: c.id}, Revision: c.revision})
			}
		}
		e.put(1, 1)
		synctest.Wait()
		at := e.table.Revision(e.db.ReadTxn())
		e.sweep()
		synctest.Wait()
		require.Len(e, deleted, 1)
		require.Equal(e, at, deleted[0].Revision, "the revision of the table after the listing")
		require.Equal(e, 1, e.target.batches-1, "one batch to update, one to delete")
	}, func(e *env, cfg *reconciler.Config[*object]) {
		cfg.Sweeper, cfg.Operations, cfg.BatchOperations = &lister{target: e.target}, nil, batchTarget{e.target}
	})
}

func TestSweepLeavesObjectsBeingDeletedAlone(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		e.put(1, ids(1, 3)...)
		e.pass(time.Second)
		e.target.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("in use")
			}
			return nil
		})
		e.target.take()
		start := time.Now()
		e.remove(1, 2, 3)
		e.pass(50 * time.Millisecond)
		record := e.sweep()
		require.Equal(e, inspect.Prune{Listed: 3}, *record, "these do not count for the budget")
		e.pass(500 * time.Millisecond)
		var calls []call
		for _, c := range e.target.take() {
			if c.id == 1 && c.op == "delete" {
				calls = append(calls, c)
			}
		}
		require.Equal(e, seconds(0, 0.1, 0.3), since(start, calls), "the backoff continues")
	}, reconciler.WithSweepBudget(1, 0))
}

func TestObjectInsertedDuringTheListingIsNotSwept(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		s.strays(7, 8)
		s.during = func(context.Context, func(*object) bool) { e.put(1, 7) }
		record := e.sweep()
		require.Equal(e, 1, record.Swept)
		e.pass(time.Second)
		require.Equal(e, []string{"delete(8)", "update(7)"}, e.target.ops())
		e.eachDone()
	})
}

// An object that is deleted from the table during the listing is deleted for that reason, and is no
// orphan.
func TestObjectDeletedDuringTheListingIsNotSwept(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		e.put(1, ids(1, 20)...)
		e.pass(time.Second)
		e.target.take()
		s.during = func(context.Context, func(*object) bool) { e.remove(ids(1, 10)...) }
		record := e.sweep()
		require.Equal(e, inspect.Prune{Listed: 20}, *record)
		e.pass(time.Second)
		require.Len(e, e.target.ops(), 10)
		e.eachDone()
	}, reconciler.WithSweepBudget(1, 0))
}

func TestOrphanDeletionIsRetriedUntilItsObjectIsInserted(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		s.strays(7, 8)
		s.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("in use")
			}
			return nil
		})
		start := time.Now()
		e.sweep()
		e.pass(350 * time.Millisecond)
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, "2 error(s)", message)
		require.EqualError(e, err, "in use\nin use")

		e.put(1, 7)
		e.pass(time.Second)
		s.failing("")
		e.pass(time.Minute)
		deletions := map[uint64][]call{}
		for _, c := range s.take() {
			if c.op == "delete" {
				deletions[c.id] = append(deletions[c.id], c)
			}
		}
		require.Len(e, deletions[7], 3, "no longer retried")
		require.Equal(e, seconds(0, 0.1, 0.3, 0.7, 1.5), roundedSince(start, deletions[8]))
		e.eachDone()
		level, _, _ = e.health.Now()
		require.Equal(e, cell.StatusOK, level)
	})
}

// roundedSince returns the times of the calls relative to start, rounded to a tenth of a second:
// retries may wait a few milliseconds for each other.
func roundedSince(start time.Time, calls []call) []time.Duration {
	at := since(start, calls)
	for i := range at {
		at[i] = at[i].Round(100 * time.Millisecond)
	}
	return at
}

func TestFailedListingIsRetriedWithBackoffAndDeletesNothing(t *testing.T) {
	for _, how := range []string{"error", "panic"} {
		t.Run(how, func(t *testing.T) {
			sweeping(t, func(e *env, s *lister) {
				s.strays(1)
				s.deciding(func(c call) error {
					if c.op != "prune" {
						return nil
					}
					if how == "panic" {
						panic("out of cheese")
					}
					return errors.New("out of cheese")
				})
				start := time.Now()
				e.loop.Prune()
				e.pass(time.Second)
				require.Equal(e, seconds(0, 0.1, 0.3, 0.7), since(start, s.take()))
				require.Contains(e, e.swept().Error, "out of cheese")
				require.Equal(e, 1, e.swept().Listed)
				level, _, err := e.health.Now()
				require.Equal(e, cell.StatusDegraded, level)
				require.ErrorContains(e, err, "out of cheese")
				require.Len(e, s.holds(), 1)

				s.failing("")
				e.pass(time.Minute)
				require.Empty(e, s.holds())
				level, _, _ = e.health.Now()
				require.Equal(e, cell.StatusOK, level)
			})
		})
	}
}

// When a stop cuts a listing short, nothing is known of the rest of the target, so nothing is
// deleted.
func TestListingCutShortByTheStopDeletesNothing(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		s.strays(1, 2)
		var kept func(*object) bool
		more := true
		s.during = func(ctx context.Context, yield func(*object) bool) {
			kept = yield
			<-ctx.Done()
			more = yield(&object{ID: 3})
		}
		e.loop.Prune()
		synctest.Wait()
		e.stop()
		require.False(e, more)
		require.False(e, kept(&object{ID: 4}))
		require.Len(e, s.holds(), 2)
		require.Contains(e, e.swept().Error, "canceled")
	})
}
