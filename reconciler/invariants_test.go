// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// 5: a status write never brings a deleted object back.
func TestDeletedObjectIsNotBroughtBackByItsStatus(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.before = func(context.Context, call) { time.Sleep(time.Second) }
		e.put(1, 1)
		e.pass(100 * time.Millisecond)
		e.remove(1)
		e.pass(10 * time.Second)
		require.Nil(e, e.get(1))
		require.Equal(e, []string{"update(1)", "delete(1)"}, e.target.calls())
	}, nil)
}

// 2: a retry applies the current row, even if the row was written without a new status ID.
func TestRetryAppliesTheCurrentVersion(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		synctest.Wait()
		e.write(func(wtxn statedb.WriteTxn) {
			o := e.get(1).Clone()
			o.Value = 2
			_, _, err := e.table.Insert(wtxn, o)
			require.NoError(e, err)
		})
		e.target.failing("")
		e.pass(time.Second)
		e.eachDone()
	}, nil)
}

// 3: a failed delete is retried until it succeeds. The retries end when the object is back.
func TestDeleteIsRetriedUntilTheObjectIsBack(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		synctest.Wait()
		e.target.failing("no")
		e.remove(1, 2)
		e.pass(250 * time.Millisecond)
		e.target.take()
		e.target.failing("")
		e.put(2, 1)
		e.pass(time.Minute)
		require.Equal(e, []string{"update(1)", "delete(2)"}, e.target.calls())
		e.eachDone()
	}, nil)
}

// 3: the retries of a deletion also end when the object is back with the status Done.
func TestDeleteEndsWhenTheObjectIsBackAsDone(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		synctest.Wait()
		e.target.failing("no")
		e.remove(1)
		synctest.Wait()
		e.target.take()
		e.write(func(wtxn statedb.WriteTxn) {
			_, _, err := e.table.Insert(wtxn, &object{ID: 1, Value: 1, Status: reconciler.StatusDone()})
			require.NoError(e, err)
		})
		e.pass(time.Minute)
		require.Empty(e, e.target.calls())
		level, _, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level)
	}, nil)
}

// A deletion does not wait for the backoff of the failed updates of its object.
func TestDeletionDoesNotInheritTheWait(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		e.pass(10 * time.Minute)
		e.target.failing("")
		e.target.take()
		e.remove(1)
		synctest.Wait()
		require.Equal(e, []string{"delete(1)"}, e.target.calls())
	}, nil, reconciler.WithRetry(time.Second, time.Hour))
}

// 7: the number of keys that a round reads does not depend on the size of the table.
func TestRoundCostDoesNotDependOnTheTable(t *testing.T) {
	reads := func(size uint64) (n int64) {
		inBubble(t, func(e *env) {
			e.put(1, ids(1000, 1000+size)...)
			e.pass(time.Second)
			counted.Store(0)
			for id := range uint64(20) {
				e.put(1, id)
				synctest.Wait()
				e.remove(id)
				synctest.Wait()
			}
			n = counted.Load()
		}, countReads)
		return n
	}
	few := reads(1)
	require.Positive(t, few)
	require.Equal(t, few, reads(3000))
}

// 7: an idle loop costs nothing: it reads no keys and reports no health.
func TestIdleLoopReadsNothing(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, ids(1, 100)...)
		synctest.Wait()
		counted.Store(0)
		reports := len(e.health.History())
		e.pass(24 * time.Hour)
		require.Zero(e, counted.Load())
		require.Len(e, e.health.History(), reports)
	}, countReads, reconciler.WithoutPruning())
}

// 8: an idle loop does not keep replaced objects alive, in its own table or in another.
func TestIdleLoopKeepsNothingOfOtherTablesAlive(t *testing.T) {
	inBubble(t, func(e *env) {
		others, err := statedb.NewTable(e.db, "others", idIndex)
		require.NoError(e, err)
		write := func(o *object) {
			wtxn := e.db.WriteTxn(others)
			_, _, err := others.Insert(wtxn, o)
			require.NoError(e, err)
			wtxn.Commit()
		}
		old := &object{ID: 1}
		kept := weak.Make(old)
		write(old)
		old = nil
		e.put(1, 1)
		e.pass(time.Millisecond)
		// Two writes, since statedb remembers the transaction before the last one.
		write(&object{ID: 1})
		write(&object{ID: 1})
		runtime.GC()
		require.Nil(e, kept.Value())
	}, nil)
}

// 9: a prune waits until the table is initialised, whether it is periodic or was asked for, and then runs.
func TestPruneWaitsForTheInitialisers(t *testing.T) {
	for name, option := range map[string]reconciler.Option{
		"asked": reconciler.WithoutPruning(), "periodic": reconciler.WithPruning(time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			var markInit func(statedb.WriteTxn)
			inBubble(t, func(e *env) {
				e.put(1, 1)
				if name == "asked" {
					e.loop.Prune()
				}
				e.pass(10 * time.Hour)
				require.Equal(e, []string{"update(1)"}, e.target.calls())
				e.write(markInit)
				synctest.Wait()
				require.Equal(e, []string{"prune(1)"}, e.target.calls())
			}, func(e *env, _ *reconciler.Config[*object]) {
				e.write(func(wtxn statedb.WriteTxn) { markInit = e.table.RegisterInitializer(wtxn, "init") })
			}, option)
		})
	}
}

// 10: a stop commits what has finished, cancels the context of what runs, and starts nothing more.
func TestStopCommitsWhatWasFinished(t *testing.T) {
	bothLedgers(t, func(e *env) {
		e.target.before = func(ctx context.Context, c call) {
			if c.id == 4 {
				<-ctx.Done()
			}
		}
		e.target.deciding(func(c call) error {
			switch c.id {
			case 2:
				return errors.New("no")
			case 4:
				return context.Canceled
			}
			return nil
		})
		e.put(1, ids(1, 5)...)
		e.pass(10 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindPending, e.told(2).Kind)
		e.stop()
		require.Equal(e, []string{"update(1)", "update(2) fail", "update(3)", "update(4) fail"}, e.target.calls())
		for id, kind := range map[uint64]reconciler.StatusKind{
			1: reconciler.StatusKindDone, 2: reconciler.StatusKindError, 3: reconciler.StatusKindDone,
			4: reconciler.StatusKindPending, 5: reconciler.StatusKindPending,
		} {
			require.Equal(e, kind, e.told(id).Kind, "object %d", id)
		}
	})
}

// The longest possible interval does not overflow into a prune that is due at once.
func TestHugePruneIntervalIsNotDueAtOnce(t *testing.T) {
	inBubble(t, func(e *env) {
		e.pass(time.Hour)
		e.loop.Prune()
		e.pass(time.Hour)
		require.Equal(e, []string{"prune(0)"}, e.target.calls())
	}, nil, reconciler.WithPruning(math.MaxInt64), reconciler.WithRefreshing(math.MaxInt64, nil))
}
