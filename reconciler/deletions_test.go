// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// A page of deletions continues where the previous one ended, even among the orphans of one resync,
// which are all unreconciled since the same revision.
func TestPagesOfDeletionsHaveEachOrphanOnce(t *testing.T) {
	const orphans, page = 120, 50
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("in use")
			}
			return nil
		})
		e.target.strays(ids(1001, 1000+orphans)...)
		require.Equal(e, orphans, e.relist().Orphan)
		e.pass(50 * time.Millisecond)
		listed := e.deletions(page, 2+orphans/page)
		require.Len(e, listed, orphans)
		slices.Sort(listed)
		require.Len(e, slices.Compact(listed), orphans)
	}, func(e *env, cfg *reconciler.Config[*object]) {
		cfg.Lister, cfg.OrphansOnly = &lister{target: e.target}, true
	},
		reconciler.WithRetry(time.Hour, time.Hour))
}

// If an operation changes the key of its object and fails, the failure counts for the original key, and
// that key is retried.
func TestFailureOfAnOperationThatChangesTheKeyIsRetried(t *testing.T) {
	for _, batches := range []bool{false, true} {
		eachConcurrency(t, fmt.Sprintf("batches %t", batches), func(e *env) {
			e.target.failingFor(1, errPlain)
			until := e.put(1, ids(1, 3)...)
			e.pass(time.Second)
			e.target.failing("")
			over := e.wait(until, reconciler.Applied)
			e.pass(time.Minute)
			e.eachDone()
			e.nothingUnapplied(<-over)
			require.Zero(e, e.loop.Snapshot(e.Context()).LowWatermark)
			_, message, _ := e.health.Now()
			require.Equal(e, "OK, 3 object(s)", message)
		}, func(e *env, cfg *reconciler.Config[*object]) {
			cfg.Operations = spoiler{e.target}
			if batches {
				cfg.BatchOperations = spoilerBatches{spoiler{e.target}, batchTarget{e.target}}
			}
		})
	}
}

// goingOn are the outcomes with which a deletion goes on: its operation is called again. The field
// again has the times of the calls within ten seconds.
var goingOn = map[string]struct {
	err   error
	again []time.Duration
}{
	"requeue": {reconciler.Requeue(4 * time.Second), seconds(0, 4, 8)},
	"backoff": {reconciler.RequeueBackoff(), backoff},
}

// marking marks updates with the value 0 as deletions, like an adapter whose rows stay until their
// resource is gone.
func marking(e *env) {
	e.hook(func(ctx context.Context, c call) {
		if c.op == "update" && c.value == 0 {
			running.Deletion(ctx)
		}
	})
}

// A wait for a deletion lasts until the deletion is done, even if its operation returns Requeue. The same holds for
// an update that is marked as a deletion. Its row is Blocked with the reason "still deleting", and is written once.
func TestWaitLastsWhileADeletionGoesOn(t *testing.T) {
	for name, c := range goingOn {
		for _, update := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, update %t", name, update), func(t *testing.T) {
				singly(t, func(e *env) {
					marking(e)
					e.put(1, 1)
					e.pass(time.Second)
					e.target.take()
					e.target.deciding(func(call) error { return c.err })
					start := time.Now()
					var over <-chan waited
					if update {
						over = e.wait(e.put(0, 1), reconciler.Applied)
					} else {
						over = e.wait(e.remove(1), reconciler.Applied)
					}
					e.pass(time.Second / 20)
					written := e.table.Revision(e.db.ReadTxn())
					e.pass(10*time.Second - time.Second/20)
					require.Equal(e, c.again, since(start, e.target.take()))
					e.goesOn(over)
					require.Equal(e, written, e.table.Revision(e.db.ReadTxn()))
					if update {
						e.status(1, reconciler.StatusKindBlocked, "still deleting")
					} else {
						x := e.loop.Explain(e.Context(), "1")
						require.Equal(e, inspect.StateBlocked, x.State)
						require.Equal(e, "still deleting", x.BlockedOn)
					}
					level, _, _ := e.health.Now()
					require.Equal(e, cell.StatusOK, level)
					e.target.failing("")
					e.nothingUnapplied(<-over)
					synctest.Wait()
				})
			})
		}
	}
}

// A deletion is never given up, whether its operation is a Delete or an Update.
func TestDeletionIsNeverGivenUp(t *testing.T) {
	for name, err := range map[string]error{"plain": errPlain, "terminal": errors.Join(errPlain, reconciler.TerminalError(errInner))} {
		t.Run(name, func(t *testing.T) {
			singly(t, func(e *env) {
				marking(e)
				e.put(1, 1, 2)
				e.pass(time.Second)
				e.target.take()
				e.target.deciding(func(call) error { return err })
				start := time.Now()
				e.remove(1)
				e.put(0, 2)
				e.pass(10 * time.Second)
				at := map[uint64][]call{}
				for _, c := range e.target.take() {
					at[c.id] = append(at[c.id], c)
				}
				require.Equal(e, backoff, since(start, at[1]))
				require.Equal(e, backoff, since(start, at[2]))
				e.status(2, reconciler.StatusKindError, err.Error())
				e.target.failing("")
				e.pass(time.Minute)
				e.eachDone()
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 2 }))
		})
	}
}

// If an adapter calls running.Changed, its changes of the object are written even if the outcome is not
// news.
func TestChangeOfAnAdapterIsWrittenWithTheOutcome(t *testing.T) {
	for name, err := range map[string]error{"requeue": reconciler.Requeue(time.Second), "failure": errPlain} {
		for _, tell := range []bool{false, true} {
			eachConcurrency(t, fmt.Sprintf("%s, tell %t", name, tell), func(e *env) {
				calls := 0
				e.hook(func(ctx context.Context, c call) {
					if calls++; calls == 3 && tell {
						running.Changed(ctx)
					}
				})
				e.target.deciding(func(call) error { return err })
				e.put(1, 1)
				e.pass(time.Second / 20)
				first := e.table.Revision(e.db.ReadTxn())
				e.pass(5 * time.Second)
				require.GreaterOrEqual(e, calls, 4)
				revision := e.table.Revision(e.db.ReadTxn())
				if tell {
					require.Equal(e, first+1, revision, "written once more")
					require.Equal(e, "changed", e.get(1).Note)
				} else {
					require.Equal(e, first, revision, "clones are not compared")
				}
			}, func(e *env, _ *reconciler.Config[*object]) {
				e.target.mutate = func(o *object) { o.Note = "changed" }
			}, reconciler.WithRetry(time.Second, time.Second))
		}
	}
}

// unset writes rows without a status.
func (e *env) unset(ids ...uint64) statedb.Revision {
	return e.write(func(wtxn statedb.WriteTxn) {
		for _, id := range ids {
			_, _, err := e.table.Insert(wtxn, &object{ID: id, Value: 7})
			require.NoError(e, err)
		}
	})
}

// failures are outcomes that keep an object from running again for a long time. Their channels must
// be made in the bubble.
var failures = []struct {
	name string
	err  func() error
}{
	{"terminal", func() error { return reconciler.TerminalError(errors.New("no such name")) }},
	{"blocked", func() error { return reconciler.Blocked("device eth0 is missing", make(chan struct{})) }},
	{"blocked without a channel", func() error { return reconciler.Blocked("an operator") }},
	{"retry", func() error { return reconciler.RetryAfter(errors.New("busy"), 24*time.Hour) }},
}

// failingFor makes the operations on an object return err.
func (x *target) failingFor(id uint64, err error) {
	x.deciding(func(c call) error {
		if c.id == id && c.op != "prune" {
			return err
		}
		return nil
	})
}

// A wait for a deletion ends when the row is inserted again without a status, however long the
// deletion would have waited, even if the row is inserted while the deletion runs.
func TestUnsetRowEndsTheWaitForADeletion(t *testing.T) {
	for _, failure := range failures {
		for _, lasts := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprintf("%s, lasts %s", failure.name, lasts), func(t *testing.T) {
				everyWay(t, func(e *env) {
					e.put(works, 1)
					synctest.Wait()
					e.target.failingFor(1, failure.err())
					e.target.takes(lasts)
					e.remove(1)
					over := e.waitFor(reconciler.Applied, 1)
					e.pass(lasts / 2)
					e.goesOn(over)
					e.unset(1)
					e.pass(lasts / 2)
					require.ErrorIs(e, e.isOver(over, lasts).err, reconciler.ErrNoStatus)
				}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
			})
		}
	}
}

// deletions returns the keys of all pages of the list of deletions.
func (e *env) deletions(limit, maxPages int) (keys []string) {
	e.Helper()
	query := inspect.ObjectQuery{Status: "Deleted", Limit: limit}
	for pages := 0; pages == 0 || query.After != ""; pages++ {
		require.Less(e, pages, maxPages, "pages")
		page := e.objects(query)
		require.LessOrEqual(e, len(page.Objects), limit)
		for _, line := range page.Objects {
			keys = append(keys, line.Key)
		}
		query.After = page.Next
	}
	return keys
}

func TestExplainAndRetryNameDeletionsThatAreUnread(t *testing.T) {
	const unread = "not in the table; deletions after revision 2 may be unread: if it was deleted since, that may be still to come"
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.loop.Pause()
		e.pass(time.Second)
		e.remove(1)
		e.pass(time.Second)
		x := e.loop.Explain(e.Context(), "1")
		require.Equal(e, inspect.StateAbsent, x.State)
		require.Equal(e, unread, x.Why)
		_, err := e.loop.Retry(e.Context(), "1")
		require.ErrorIs(e, err, inspect.ErrNotFound)
		require.ErrorContains(e, err, unread)
		e.resume()
		e.pass(time.Second)
		require.Equal(e, "not in the table, and nothing is left to be done for it", e.loop.Explain(e.Context(), "1").Why)
	}, nil)
}

// The key is in the table when the main cursor takes its snapshot, so that its first deletion is gone from the
// changes. It is deleted again before its row is read, and the main cursor has passed the revision of the wait.
func TestWaitForOfADeletedObjectOutlastsAnUnreadDeletion(t *testing.T) {
	for name, ledger := range map[string]configure{"in the rows": nil, "beside": beside} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.put(1, ids(1, 20)...)
				e.pass(time.Second)
				e.target.take()
				e.hook(func(context.Context, call) { time.Sleep(time.Millisecond) })
				e.loop.Pause()
				e.remove(1)
				over := make(chan bool, 1)
				go func() {
					_, err := e.loop.WaitFor(e.Context(), reconciler.Applied, &object{ID: 1})
					_, there := e.target.holds()[1]
					over <- err == nil && !there
				}()
				e.pass(time.Second)
				e.put(2, ids(2, 20)...)
				e.put(2, 1)
				e.loop.Resume()
				e.pass(2 * time.Millisecond)
				e.remove(1)
				e.pass(time.Second)
				require.True(e, <-over, "the object is not in the target")
				require.NotContains(e, e.target.calls(), "update(1)")
			}, ledger)
		})
	}
}

// spoiler is a target that changes the key of its object when an update fails.
type spoiler struct{ *target }

func (s spoiler) Update(ctx context.Context, txn statedb.ReadTxn, rev statedb.Revision, o *object) error {
	err := s.target.Update(ctx, txn, rev, o)
	if err != nil {
		o.ID += 1000
	}
	return err
}

// spoilerBatches is a spoiler with batch operations.
type spoilerBatches struct {
	spoiler
	batchTarget
}

func (s spoilerBatches) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	s.batchTarget.UpdateBatch(ctx, txn, batch)
	for i := range batch {
		if batch[i].Result != nil {
			batch[i].Object.ID += 1000
		}
	}
}

func (s spoilerBatches) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	s.batchTarget.DeleteBatch(ctx, txn, batch)
}
