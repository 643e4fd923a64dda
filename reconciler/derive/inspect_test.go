// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestExplainNamesTheWinnerAndTenLosers(t *testing.T) {
	inBubble(t, func(e *env) {
		d := e.best()
		stop := e.run(d)
		for i := range 50 {
			e.put(&wish{Name: fmt.Sprintf("w%02d", i), Places: "10.0.0.0/8 p" + fmt.Sprint(i), Metric: (i*7 + 3) % 50})
		}
		found, err := e.registry.Find("derive-routes")
		require.NoError(e, err)
		explanation := found.Explain(e.Context(), "10.0.0.0/8")
		require.Equal(e, inspect.StateDone, explanation.State)
		require.Equal(e, `it is a row of table "routes", derived from table "wishes"`, explanation.Why)
		notes := explanation.Notes
		require.Len(e, notes, 12)
		// The metric of wish i is 7 i + 3 modulo 50: that of wish 21 is 0, 43 numbers later it is one more.
		require.Equal(e, `10.0.0.0/8 of table "routes": the winner is w21 (w21 10.0.0.0/8 p21 0), 50 row(s) want it`, notes[0])
		for i, note := range notes[1:11] {
			name := fmt.Sprintf("w%02d", (21+43*(i+1))%50)
			require.True(e, strings.HasPrefix(note, "loser: "+name), note)
		}
		require.Equal(e, "and 39 further loser(s)", notes[11])

		winner := found.Explain(e.Context(), "w21")
		require.Equal(e, `2 row(s) of table "routes" are derived from it`, winner.Why)
		require.Equal(e, []string{
			`10.0.0.0/8 of table "routes": it wins over 49 other(s), the next is w14 (w14 10.0.0.0/8 p14 1)`,
			`p21 of table "routes": no other row wants it`,
		}, winner.Notes)
		require.Equal(e, `it wants 2 row(s) of table "routes", and wins 1`, found.Explain(e.Context(), "w00").Why)
		require.Equal(e, `10.0.0.0/8 of table "routes": it loses to w21 (w21 10.0.0.0/8 p21 0), 50 row(s) want it`,
			found.Explain(e.Context(), "w00").Notes[0])
		require.Equal(e, inspect.StateAbsent, found.Explain(e.Context(), "absent").State)

		e.put(&wish{Name: "w00", Fail: "error"})
		failed := found.Explain(e.Context(), "w00")
		require.Equal(e, inspect.StateTerminal, failed.State)
		require.Contains(e, failed.Error, "no route")
		require.Contains(e, failed.Notes[0], "before the failure is still in")
		stop()
		e.put(&wish{Name: "w01"})
		unseen := d.Explain(e.Context(), "w01")
		require.Equal(e, inspect.StateUnseen, unseen.State)
		require.Equal(e, "Pending", unseen.Status)
		require.Empty(e, e.registry.All())
	})
}

func TestOperatorsCanRetryRefreshAndPause(t *testing.T) {
	inBubble(t, func(e *env) {
		calls, broken := 0, true
		d, err := derive.Each(e.cfg, e.wishes, e.routes, func(w *wish) ([]*route, error) {
			if calls++; !broken {
				return []*route{{Place: w.Name, From: w.Name}}, nil
			}
			return routesOf(w)
		})
		e.made(d, err)
		e.run(d)
		e.put(&wish{Name: "a", Fail: "error"}, &wish{Name: "b", Places: "b"}, &wish{Name: "c", Fail: "panic"})
		broken, calls = false, 0
		e.acts(1, d.Retry, "a", "b")
		e.has("a<-a", "b<-b")
		e.acts(1, d.Retry)
		e.has("a<-a", "b<-b", "c<-c")
		e.healthy()
		require.Equal(e, 2, calls)
		_, err = d.Retry(e.Context(), "a", "x")
		require.ErrorIs(e, err, inspect.ErrNotFound)
		e.acts(1, d.Refresh, "b")
		require.Equal(e, 3, calls)
		e.acts(0, d.Refresh)
		require.Equal(e, 6, calls)
		_, err = d.Refresh(e.Context(), make([]string, inspect.MaxKeys+1)...)
		require.Error(e, err)

		d.Pause()
		synctest.Wait()
		require.Equal(e, inspect.ConditionPaused, d.Snapshot(e.Context()).Condition)
		_, message, _ := e.health.Scope("derive-routes").Now()
		require.Equal(e, `OK, deriving table "routes" from table "wishes", paused`, message)
		e.remove("a")
		e.has("a<-a", "b<-b", "c<-c")
		require.Equal(e, 1, d.Snapshot(e.Context()).Unseen)
		d.Resume()
		synctest.Wait()
		e.has("b<-b", "c<-c")
		require.Equal(e, inspect.ConditionRunning, d.Snapshot(e.Context()).Condition)
	})
}

func TestWaitEndsWhenRowsAreDerived(t *testing.T) {
	inBubble(t, func(e *env) {
		d := e.best()
		stop := e.run(d)
		wtxn := e.db.WriteTxn(e.wishes)
		e.insert(wtxn, &wish{Name: "a", Places: "1"}, &wish{Name: "b", Fail: "error"})
		wtxn.Commit()
		rest, err := d.WaitAll(e.Context(), reconciler.Attempted)
		require.NoError(e, err)
		require.Len(e, rest.Keys, 1)
		require.ErrorContains(e, rest.Err(), "no route")
		e.has("1<-a")
		rest, err = d.WaitKey(e.Context(), "a", reconciler.Applied)
		require.NoError(e, err)
		require.Empty(e, rest.Keys)
		_, err = d.WaitKey(e.Context(), "c", reconciler.Applied)
		require.ErrorIs(e, err, inspect.ErrNotFound)
		ended := make(chan error)
		go func() {
			_, err := d.WaitAll(e.Context(), reconciler.Applied)
			ended <- err
		}()
		e.put(&wish{Name: "b"})
		require.NoError(e, <-ended)
		stop()
		e.put(&wish{Name: "d"})
		_, err = d.WaitAll(e.Context(), reconciler.Attempted)
		require.ErrorIs(e, err, inspect.ErrStopped)
	})
}

func TestObjectsAreTheRowsOfTheInput(t *testing.T) {
	inBubble(t, func(e *env) {
		d := e.best()
		e.run(d)
		e.put(&wish{Name: "a", Places: "1"}, &wish{Name: "b", Fail: "error"}, &wish{Name: "c"})
		page, err := d.Objects(e.Context(), inspect.ObjectQuery{Limit: 2})
		require.NoError(e, err)
		require.Equal(e, []string{"a", "b"}, []string{page.Objects[0].Key, page.Objects[1].Key})
		page, err = d.Objects(e.Context(), inspect.ObjectQuery{Limit: 2, After: page.Next})
		require.NoError(e, err)
		require.Equal(e, "c", page.Objects[0].Key)
		require.Empty(e, page.Next)
		page, err = d.Objects(e.Context(), inspect.ObjectQuery{Status: "error"})
		require.NoError(e, err)
		require.Len(e, page.Objects, 1)
		require.Contains(e, page.Objects[0].Error, "no route")
		_, err = d.Objects(e.Context(), inspect.ObjectQuery{Status: "odd"})
		require.ErrorContains(e, err, `status is "odd"`)
		_, err = d.Objects(e.Context(), inspect.ObjectQuery{After: "x"})
		require.ErrorContains(e, err, `after is "x"`)
		require.Equal(e, []string{"a", "b"}, d.Keys("", 2))
		require.Equal(e, []string{"c"}, d.Keys("c", 2))

		s := d.Snapshot(e.Context())
		require.Equal(e, 1, s.Failing)
		require.Equal(e, 3, s.Objects)
		require.Contains(e, s.String(), "no route")
		f := d.Figures()
		require.Equal(e, 1, f.Failing)
		require.EqualValues(e, 2, f.Updates.Done)
		var _ inspect.Controller = d
	})
}

func TestDerivationIsAJobOfAHive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			e      = &env{T: t}
			made   *derived
			health *cell.SimpleHealth
		)
		h := hive.New(
			statedb.Cell, job.Cell, cell.SimpleHealthCell, inspect.Cell,
			cell.Module("test", "Test",
				cell.Provide(job.Registry.NewGroup),
				cell.Invoke(func(db *statedb.DB, group job.Group, registry *inspect.Registry, s *cell.SimpleHealth) error {
					e.db, e.registry, health = db, registry, s
					e.wishes, e.routes = newTable(e, "wishes", byName), newTable(e, "routes", byPlace)
					d, err := derive.Best(derive.Config[*route]{DB: db, Registry: registry}, e.wishes, e.routes, routesOf, metricOf)
					if err == nil {
						d.AddTo(group)
					}
					made = d
					return err
				}),
			),
		)
		require.NoError(t, h.Start(hivetest.Logger(t), t.Context()))
		e.put(&wish{Name: "a", Places: "1"}, &wish{Name: "b", Fail: "error"})
		e.has("1<-a")
		require.Len(t, e.registry.All(), 1)
		reported := health.GetChild("job-derive-routes")
		require.NotNil(t, reported)
		require.Equal(t, cell.StatusDegraded, reported.Level)
		require.NoError(t, h.Stop(hivetest.Logger(t), context.Background()))
		require.ErrorContains(t, made.Run(t.Context()), "has been closed")
	})
}
