// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestEachRowDerivesManyRows(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(&wish{Name: "a", Places: "1 2"})
		e.run(e.each())
		e.has("1<-a", "2<-a")
		e.put(&wish{Name: "a", Places: "2 3"}, &wish{Name: "b", Places: "4"}, &wish{Name: "c"})
		e.has("2<-a", "3<-a", "4<-b")
		e.remove("a")
		e.has("4<-b")
		e.healthy()
		e.remove("b", "c")
		e.has()
	})
}

func TestEqualRowsAreNotWritten(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(&wish{Name: "a", Places: "1 2"}, &wish{Name: "b", Places: "1", Metric: 7})
		d := e.best()
		stop := e.run(d)
		before := e.revision()
		e.put(&wish{Name: "a", Places: "2 1"})
		e.put(&wish{Name: "b", Places: "1", Metric: 8})
		require.Equal(e, before, e.revision())
		require.EqualValues(e, 4, e.published().Input)
		require.Equal(e, before, e.published().Output)

		stop()
		d.Close()
		e.run(e.best())
		require.Equal(e, before, e.revision(), "the rows of the derivation before are recognised")
		e.put(&wish{Name: "a", Places: "1 2", Metric: 1})
		require.Equal(e, before+2, e.revision())
	})
}

func TestLowerKeyWinsInEachUntilItGoes(t *testing.T) {
	inBubble(t, func(e *env) {
		e.run(e.each())
		e.put(&wish{Name: "b", Places: "1"})
		e.put(&wish{Name: "c", Places: "1 2"})
		e.has("1<-b", "2<-c")
		e.healthy(`row 1 of table "routes": it is derived from 2 rows of table "wishes", b wins over c: use Best`)
		require.NotZero(e, e.published().Rejected)
		e.put(&wish{Name: "a", Places: "1"})
		e.has("1<-a", "2<-c")
		e.remove("b")
		e.remove("a")
		e.has("1<-c", "2<-c")
		e.healthy()
	})
}

func TestBestRowIsInTheOutput(t *testing.T) {
	inBubble(t, func(e *env) {
		e.run(e.best())
		e.put(&wish{Name: "a", Places: "1", Metric: 5}, &wish{Name: "b", Places: "1 2", Metric: 3}, &wish{Name: "c", Places: "1", Metric: 3})
		e.has("1<-b", "2<-b")
		e.put(&wish{Name: "b", Places: "2"})
		e.has("1<-c", "2<-b")
		e.put(&wish{Name: "a", Places: "1", Metric: 2})
		e.has("1<-a", "2<-b")
		e.remove("a", "c")
		e.has("2<-b")
		e.healthy()
	})
}

// The winner is deleted and another row of the same transaction wants its place: one write, no gap.
func TestWinnerIsReplacedInOneWrite(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(&wish{Name: "a", Places: "1"})
		e.run(e.best())
		before := e.revision()
		e.write(func(wtxn statedb.WriteTxn) {
			e.delete(wtxn, "a")
			e.insert(wtxn, &wish{Name: "b", Places: "1", Metric: 1})
		})
		e.has("1<-b")
		require.Equal(e, before+1, e.revision())
	})
}

func TestFailedRowKeepsWhatItDerivedBefore(t *testing.T) {
	for _, fail := range []string{"error", "panic", "rank", "twice"} {
		t.Run(fail, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.run(e.best())
				e.put(&wish{Name: "a", Places: "1"}, &wish{Name: "b", Places: "1", Metric: 7})
				bad, text := &wish{Name: "a", Places: "2 1", Fail: fail}, map[string]string{
					"error": "no route", "panic": "panic: oh no", "rank": "panic: no rank",
					"twice": "the function returned two rows with the key 2",
				}[fail]
				if fail == "twice" {
					bad.Places, bad.Fail = "2 2", ""
				}
				e.put(bad, &wish{Name: "c", Places: "3"})
				e.has("1<-a", "3<-c")
				e.healthy(`row a of table "wishes": ` + text)
				require.Equal(e, 1, e.published().Rejected)
				e.put(&wish{Name: "a", Places: "2"})
				e.has("1<-b", "2<-a", "3<-c")
				e.healthy()
				require.Zero(e, e.published().Rejected)

				e.put(&wish{Name: "a", Places: "1", Fail: "error"})
				e.remove("a")
				e.has("1<-b", "3<-c")
				e.healthy()
			})
		})
	}
}

func TestOutputWithoutAKeyIsAnErrorOfItsInput(t *testing.T) {
	inBubble(t, func(e *env) {
		e.run(e.each())
		e.put(&wish{Name: "a", Places: "1 keyless empty keyless"}, &wish{Name: "b", Places: "2"})
		e.has("1<-a", "2<-b", "empty<-a")
		e.healthy(`row a of table "wishes": row 1 of 4 that the function returned is left out: the primary index makes no key of the object`)
		require.Equal(e, 1, e.published().Rejected)
		e.put(&wish{Name: "a", Places: "empty 3"})
		e.has("2<-b", "3<-a", "empty<-a")
		e.healthy()
		require.Zero(e, e.published().Rejected)
		e.put(&wish{Name: "a", Places: "keyless"})
		e.has("2<-b")
		e.remove("a")
		e.healthy()
	})
}

func TestRankThatIsNotANumberIsAnErrorOfTheRow(t *testing.T) {
	inBubble(t, func(e *env) {
		d := e.made(derive.Best(e.cfg, e.wishes, e.routes, routesOf, func(w *wish) float64 {
			if w.Metric == 13 {
				return math.NaN()
			}
			return -float64(w.Metric)
		}))
		e.run(d)
		e.put(&wish{Name: "a", Places: "1", Metric: 5}, &wish{Name: "b", Places: "1 2", Metric: 13}, &wish{Name: "c", Places: "1", Metric: 7})
		e.has("1<-c")
		e.healthy(`row b of table "wishes": its rank is NaN`)
		e.put(&wish{Name: "b", Places: "1 2", Metric: 9})
		e.has("1<-b", "2<-b")
		e.put(&wish{Name: "b", Metric: 13}) // what wants nothing needs no rank
		e.has("1<-c")
		e.healthy()
	})
}

func TestOutputBelongsToTheDerivationOnceInitialised(t *testing.T) {
	inBubble(t, func(e *env) {
		wtxn := e.db.WriteTxn(e.wishes)
		done := e.wishes.RegisterInitializer(wtxn, "first")
		wtxn.Commit()
		e.other(&route{Place: "1", From: "x"}, &route{Place: "2", From: "x"}, &route{Place: "3", From: "x"})
		d := e.best()
		require.False(e, e.initialized())
		stop := e.run(d)
		e.put(&wish{Name: "a", Places: "1"})
		e.has("1<-a", "2<-x", "3<-x")
		require.False(e, e.initialized())
		e.write(func(wtxn statedb.WriteTxn) {
			e.insert(wtxn, &wish{Name: "b", Places: "2"})
			done(wtxn)
		})
		e.has("1<-a", "2<-b")
		require.True(e, e.initialized())

		e.other(&route{Place: "1", From: "y"}, &route{Place: "4", From: "y"})
		e.has("1<-y", "2<-b", "4<-y")
		d.Prune()
		synctest.Wait()
		e.has("1<-a", "2<-b")
		stop()
		e.other(&route{Place: "5", From: "y"})
		e.remove("b")
		e.run(d)
		e.has("1<-a")
	})
}

func TestInitialiserEndsWithTheRowsThatItWaitsFor(t *testing.T) {
	inBubble(t, func(e *env) {
		var names []string
		for i := range 1000 {
			names = append(names, fmt.Sprintf("%04d", i))
			if i%2 == 0 {
				e.other(&route{Place: fmt.Sprintf("old%d", i)})
			}
		}
		e.put(&wish{Name: "a", Places: strings.Join(names, " ")})
		d := e.each()
		seen := 0
		check := func([]string) {
			txn := e.db.ReadTxn()
			if ok, _ := e.routes.Initialized(txn); ok {
				seen++
				require.Equal(e, 1000, e.routes.NumObjects(txn))
			}
		}
		e.commits.after.Store(&check)
		e.run(d)
		require.NotZero(e, seen)
		require.Equal(e, e.revision(), e.published().Output)
	})
}

func TestTransactionsAreSmallAndPublishTheirRevisions(t *testing.T) {
	inBubble(t, func(e *env) {
		d := e.each()
		e.run(d)
		var sizes []statedb.Revision
		was := e.revision()
		check := func([]string) {
			txn := e.db.ReadTxn()
			if now := e.routes.Revision(txn); now != was {
				sizes, was = append(sizes, now-was), now
			}
		}
		e.commits.after.Store(&check)
		places := ""
		for i := range 600 {
			places += fmt.Sprint(" ", i)
		}
		e.put(&wish{Name: "a", Places: places})
		require.Equal(e, []statedb.Revision{256, 256, 88}, sizes)
		require.EqualValues(e, 1, e.published().Input)
		require.Equal(e, e.revision(), e.published().Output)
	})
}

func TestStatusInTheOutputIsKept(t *testing.T) {
	inBubble(t, func(e *env) {
		e.cfg.Same = func(current, derived *route) bool {
			return current.From == derived.From && current.Metric == derived.Metric
		}
		merges := 0
		e.cfg.Merge = func(current, derived *route) *route {
			merged := *derived
			merged.Status = "pending, was " + current.Status
			if merges++; merges == 1 {
				// Another writer is faster.
				wtxn := e.db.WriteTxn(e.routes)
				_, _, err := e.routes.Insert(wtxn, &route{Place: "1", From: "a", Status: "failed"})
				require.NoError(e, err)
				wtxn.Commit()
			}
			return &merged
		}
		e.put(&wish{Name: "a", Places: "1"})
		e.run(e.best())
		e.other(&route{Place: "1", From: "a", Status: "done"})
		e.put(&wish{Name: "a", Places: "1 2"})
		row, _, _ := e.routes.Get(e.db.ReadTxn(), byPlace.Query("1"))
		require.Equal(e, "done", row.Status, "equal but for the status")
		e.put(&wish{Name: "b", Places: "1", Metric: -1})
		row, _, _ = e.routes.Get(e.db.ReadTxn(), byPlace.Query("1"))
		require.Equal(e, &route{Place: "1", From: "b", Metric: -1, Status: "pending, was failed"}, row)
		require.Equal(e, 2, merges)
	})
}

func TestRowThatCannotBeWrittenIsAnErrorOfItsPlace(t *testing.T) {
	inBubble(t, func(e *env) {
		e.cfg.Same = func(current, derived *route) bool {
			if derived.Metric == 13 {
				panic("unlucky")
			}
			return *current == *derived
		}
		e.cfg.Merge = func(current, derived *route) *route {
			switch derived.Metric {
			case 14:
				return current // statedb panics if a row is written again
			case 15:
				return &route{Place: "other"}
			}
			return derived
		}
		e.run(e.best())
		e.put(&wish{Name: "a", Places: "1"}, &wish{Name: "b", Places: "2"}, &wish{Name: "c", Places: "3"})
		for metric, text := range map[int]string{
			13: "panic: unlucky", 14: "it cannot be written: panic: Insert() of the same object", 15: "Config.Merge returned a row with the key other",
		} {
			e.put(&wish{Name: "a", Places: "1", Metric: 1}, &wish{Name: "b", Places: "2", Metric: metric}, &wish{Name: "c", Places: "3", Metric: 1})
			e.has("1<-a", "2<-b", "3<-c")
			for place, metric := range map[string]int{"1": 1, "2": 0, "3": 1} {
				row, _, _ := e.routes.Get(e.db.ReadTxn(), byPlace.Query(place))
				require.Equal(e, metric, row.Metric, place)
			}
			e.healthy(`row 2 of table "routes": ` + text)
			require.Equal(e, 1, e.published().Rejected, "no reader counts the input as applied")
			e.put(&wish{Name: "a", Places: "1"}, &wish{Name: "b", Places: "2"}, &wish{Name: "c", Places: "3"})
			e.healthy()
		}
	})
}

func TestChainPassesRowsAndInitialisationOn(t *testing.T) {
	inBubble(t, func(e *env) {
		wtxn := e.db.WriteTxn(e.wishes)
		done := e.wishes.RegisterInitializer(wtxn, "first")
		wtxn.Commit()
		lengths := newTable(e, "lengths", byPlace)
		first := e.each() // before the second runs: a table without initialisers is initialised
		second, err := derive.Best(derive.Config[*route]{DB: e.db}, e.routes, lengths, func(r *route) ([]*route, error) {
			return []*route{{Place: fmt.Sprint(len(r.Place)), From: r.Place, Metric: r.Metric}}, nil
		}, metricOfRoute)
		require.NoError(e, err)
		defer second.Close()
		defer reconcilertest.Go(e, second.Run)()
		e.run(first)
		e.put(&wish{Name: "a", Places: "1 22", Metric: 3}, &wish{Name: "b", Places: "2 33", Metric: 2})
		ok, _ := lengths.Initialized(e.db.ReadTxn())
		require.False(e, ok)
		e.write(func(wtxn statedb.WriteTxn) { done(wtxn) })
		ok, _ = lengths.Initialized(e.db.ReadTxn())
		require.True(e, ok)
		row, _, _ := lengths.Get(e.db.ReadTxn(), byPlace.Query("2"))
		require.Equal(e, "33", row.From)
		e.remove("b")
		row, _, _ = lengths.Get(e.db.ReadTxn(), byPlace.Query("2"))
		require.Equal(e, "22", row.From)
	})
}

func TestNothingIsRememberedOfRowsThatAreGone(t *testing.T) {
	inBubble(t, func(e *env) {
		d := e.best()
		e.run(d)
		e.put(&wish{Name: "a", Places: "1 2"}, &wish{Name: "b", Places: "2", Fail: "error"})
		e.remove("a", "b")
		in, places := d.Tracked()
		require.Zero(e, in)
		require.Zero(e, places)
	})
}

func TestStoppedDerivationContinuesWithTheChangesMeanwhile(t *testing.T) {
	inBubble(t, func(e *env) {
		d := e.best()
		stop := e.run(d)
		e.put(&wish{Name: "a", Places: "1"}, &wish{Name: "b", Places: "2"})
		require.ErrorContains(e, d.Run(e.Context()), "is running already")
		require.True(e, e.published().Connected)
		stop()
		require.False(e, e.published().Connected)
		e.remove("a")
		e.put(&wish{Name: "c", Places: "2", Metric: -1})
		time.Sleep(time.Minute)
		e.has("1<-a", "2<-b")
		stop = e.run(d)
		e.has("2<-c")
		require.True(e, e.published().Connected)
		stop()
		d.Close()
		require.ErrorContains(e, d.Run(e.Context()), "has been closed")
	})
}

func TestBadArgumentsAreNamed(t *testing.T) {
	inBubble(t, func(e *env) {
		_, err := derive.Best[*wish, *route, int](derive.Config[*route]{}, nil, nil, nil, nil)
		for _, text := range []string{"Config.DB is nil", "the input table is nil", "the output table is nil", "the function is nil", "the rank function is nil"} {
			require.ErrorContains(e, err, text)
		}
		_, err = derive.Each(e.cfg, e.routes, e.routes, func(r *route) ([]*route, error) { return nil, nil })
		require.ErrorContains(e, err, `the input and the output are the same table "routes"`)
		first := e.each()
		_, err = derive.Each(e.cfg, e.wishes, e.routes, routesOf)
		require.ErrorContains(e, err, `derive-routes: table "routes": another input with the name "wishes" is open`)
		first.Close()
		e.each()
		long := newTable(e, strings.Repeat("x", 25), byPlace)
		_, err = derive.Each(e.cfg, e.wishes, long, routesOf)
		require.ErrorContains(e, err, "cannot be used")
	})
}

func TestManyErrorsAreCountedInHealth(t *testing.T) {
	inBubble(t, func(e *env) {
		e.run(e.each())
		for i := range 15 {
			e.put(&wish{Name: fmt.Sprintf("%02d", i), Fail: "error"})
		}
		e.healthy("row 00 of", "row 09 of", "5 further errors omitted")
		_, message, err := e.health.Scope("derive-routes").Now()
		require.Equal(e, "15 error(s)", message)
		require.NotContains(e, err.Error(), "row 10 of")
	})
}

func TestRunStopsBetweenTheRowsOfASnapshot(t *testing.T) {
	inBubble(t, func(e *env) {
		ctx, cancel := context.WithCancel(e.Context())
		calls := 0
		d, err := derive.Each(e.cfg, e.wishes, e.routes, func(w *wish) ([]*route, error) {
			if calls++; calls == 2 {
				cancel()
			}
			return routesOf(w)
		})
		e.made(d, err)
		e.put(&wish{Name: "a", Places: "1"}, &wish{Name: "b", Places: "2"}, &wish{Name: "c", Places: "3"})
		require.NoError(e, d.Run(ctx))
		require.Equal(e, 2, calls)
		e.has()
		e.run(d)
		require.Equal(e, 3, calls)
		e.has("1<-a", "2<-b", "3<-c")
		require.True(e, e.initialized())
	})
}
