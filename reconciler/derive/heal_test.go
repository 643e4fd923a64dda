// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// waits returns the error of a wait for all rows that may take a minute.
func (e *env) waits(d *derived, m progress.Milestone) error {
	ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
	defer cancel()
	_, err := d.WaitAll(ctx, m)
	return err
}

// withSame has Same panic for rows of the output that another writer marked as odd, and while broken is set.
func (e *env) withSame(broken *bool) {
	e.cfg.Same = func(current, derived *route) bool {
		if current.Status == "odd" || *broken {
			panic("odd row")
		}
		return current.From == derived.From && current.Metric == derived.Metric
	}
}

func TestErrorOfAnOutputEndsWithItsCause(t *testing.T) {
	inBubble(t, func(e *env) {
		broken := false
		e.withSame(&broken)
		d := e.best()
		e.run(d)
		e.put(&wish{Name: "a", Places: "1 2"})
		e.other(&route{Place: "1", From: "a", Status: "odd"})
		e.put(&wish{Name: "b", Places: "1", Metric: -1})
		e.has("1<-a", "2<-a")
		e.healthy(`row 1 of table "routes": panic: odd row`)
		e.other(&route{Place: "1", From: "a", Status: "done"})
		require.NoError(e, e.waits(d, reconciler.Applied))
		e.has("1<-b", "2<-a")
		e.healthy()
		require.Zero(e, e.published().Rejected)
	})
}

func TestRetryReachesErrorsOfOutputs(t *testing.T) {
	inBubble(t, func(e *env) {
		broken := false
		e.withSame(&broken)
		d := e.best()
		e.run(d)
		e.put(&wish{Name: "c", Places: "3"})
		retry := func(want int, keys ...string) {
			e.Helper()
			n, err := d.Retry(e.Context(), keys...)
			require.NoError(e, err)
			require.Equal(e, want, n)
			synctest.Wait() // no time passes
		}
		for metric, retried := range []struct {
			keys []string
			n    int
		}{{nil, 2}, {[]string{"1", "2"}, 2}, {[]string{"a"}, 2}, {[]string{"b", "2"}, 2}} {
			broken = true
			e.put(&wish{Name: "a", Places: "1 2", Metric: metric - 5}, &wish{Name: "b", Places: "1", Metric: 7})
			if metric == 0 { // nothing is compared with a row that was not there
				e.put(&wish{Name: "a", Places: "1 2", Metric: -9})
			}
			e.healthy("odd row")
			retry(0, "c", "3")
			retry(retried.n, retried.keys...)
			e.healthy("odd row")
			broken = false
			retry(retried.n, retried.keys...)
			e.healthy()
			require.NoError(e, e.waits(d, reconciler.Applied))
		}
		_, err := d.Retry(e.Context(), "4")
		require.ErrorIs(e, err, inspect.ErrNotFound)
	})
}

// A row that an index of the output refuses is tried again, and so is the deletion of one that no input wants.
func TestRowThatCannotBeDeletedIsAnErrorUntilItCan(t *testing.T) {
	inBubble(t, func(e *env) {
		broken := false
		table, err := statedb.NewTable(e.db, "picky", byPlace, statedb.Index[*route, string]{
			Name: "metric", FromKey: index.String,
			FromObject: func(r *route) index.KeySet {
				if broken && r.Metric == 13 {
					panic("unlucky")
				}
				return index.NewKeySet(index.String(fmt.Sprint(r.Metric)))
			},
		})
		require.NoError(e, err)
		wtxn := e.db.WriteTxn(table)
		_, _, err = table.Insert(wtxn, &route{Place: "old", Metric: 13})
		require.NoError(e, err)
		wtxn.Commit()
		broken = true
		d := e.made(derive.Each(e.cfg, e.wishes, table, routesOf))
		e.run(d)
		e.put(&wish{Name: "a", Places: "1", Metric: 13}, &wish{Name: "b", Places: "2"})
		require.Equal(e, 2, d.Snapshot(e.Context()).Failing)
		require.ErrorIs(e, e.waits(d, reconciler.Applied), context.DeadlineExceeded)
		require.Equal(e, 2, table.NumObjects(e.db.ReadTxn()), "the old one and 2")
		synctest.Wait()
		broken = false
		require.NoError(e, e.waits(d, reconciler.Applied))
		_, _, found := table.Get(e.db.ReadTxn(), byPlace.Query("old"))
		require.False(e, found)
		_, _, found = table.Get(e.db.ReadTxn(), byPlace.Query("1"))
		require.True(e, found)
		require.Zero(e, d.Snapshot(e.Context()).Failing)
	})
}

// A row that was retried is applied when the output has it, not when its function has returned.
func TestRetriedRowIsAppliedOnceItIsWritten(t *testing.T) {
	inBubble(t, func(e *env) {
		broken, hang := false, make(chan struct{})
		e.cfg.Same = func(current, derived *route) bool {
			if derived.Metric == 2 {
				<-hang
			}
			return *current == *derived
		}
		d := e.made(derive.Each(e.cfg, e.wishes, e.routes, func(w *wish) ([]*route, error) {
			if broken {
				return nil, errors.New("no route")
			}
			return routesOf(w)
		}))
		e.run(d)
		e.put(&wish{Name: "a", Places: "1", Metric: 1})
		broken = true
		e.put(&wish{Name: "a", Places: "1", Metric: 2})
		broken = false
		_, err := d.Retry(e.Context())
		require.NoError(e, err)
		synctest.Wait()
		require.ErrorIs(e, e.waits(d, reconciler.Applied), context.DeadlineExceeded)
		close(hang)
		require.NoError(e, e.waits(d, reconciler.Applied))
		synctest.Wait()
		e.healthy()
	})
}

// What fails with the table locked is in the number that readers of the inputs get.
func TestRowThatFailsInTheTransactionIsRejected(t *testing.T) {
	inBubble(t, func(e *env) {
		e.cfg.Same = func(current, derived *route) bool { return current.Metric == derived.Metric }
		merges := 0
		e.cfg.Merge = func(current, derived *route) *route {
			if merges++; merges == 2 {
				panic("odd row")
			}
			// Another writer is faster.
			wtxn := e.db.WriteTxn(e.routes)
			_, _, err := e.routes.Insert(wtxn, &route{Place: "1", From: "a", Status: "done"})
			require.NoError(e, err)
			wtxn.Commit()
			merged := *derived
			return &merged
		}
		e.run(e.best())
		e.put(&wish{Name: "a", Places: "1"})
		table, err := inputs.Open(e.db, "routes")
		require.NoError(e, err)
		lies := 0
		check := func([]string) {
			if row, _ := table.Get(e.db.ReadTxn(), "wishes"); row.Input == 2 && row.Rejected == 0 {
				lies++
			}
		}
		e.commits.after.Store(&check)
		e.put(&wish{Name: "a", Places: "1", Metric: 7})
		e.healthy("odd row")
		require.Equal(e, 1, e.published().Rejected)
		require.Zero(e, lies)
	})
}

// Rows of an earlier derivation stay while a row was never derived. That row may derive nothing in the end.
func TestRetryOfTheLastUnknownRowEndsWhatIsNotWanted(t *testing.T) {
	inBubble(t, func(e *env) {
		broken := true
		e.other(&route{Place: "1", From: "x"})
		d := e.made(derive.Each(e.cfg, e.wishes, e.routes, func(*wish) ([]*route, error) {
			if broken {
				return nil, errors.New("no route")
			}
			return nil, nil
		}))
		e.put(&wish{Name: "a"})
		e.run(d)
		e.has("1<-x")
		broken = false
		_, err := d.Retry(e.Context())
		require.NoError(e, err)
		synctest.Wait()
		e.has()
	})
}
