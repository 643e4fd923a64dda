// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestPlaceInErrorIsNotApplied(t *testing.T) {
	inBubble(t, func(e *env) {
		d := e.each()
		e.run(d)
		e.put(&wish{Name: "a", Places: "1"}, &wish{Name: "b", Places: "1"}, &wish{Name: "c", Places: "2"})
		wait := func(ask func(ctx context.Context) (inspect.Unapplied, error)) (inspect.Unapplied, error) {
			ctx, cancel := context.WithTimeout(e.Context(), time.Second)
			defer cancel()
			return ask(ctx)
		}
		ofB := func(ctx context.Context) (inspect.Unapplied, error) { return d.WaitKey(ctx, "b", reconciler.Applied) }
		rest, err := wait(func(ctx context.Context) (inspect.Unapplied, error) { return d.WaitAll(ctx, reconciler.Applied) })
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.Len(e, rest.Keys, 1)
		require.Equal(e, "1", string(rest.Keys[0].Key))
		require.ErrorContains(e, rest.Err(),
			`row 1 of table "routes": it is derived from 2 rows of table "wishes", a wins over b: use Best`)
		_, err = wait(ofB)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		_, err = d.WaitKey(e.Context(), "c", reconciler.Applied)
		require.NoError(e, err)

		require.Equal(e, 1, d.Figures().Failing)
		s := d.Snapshot(e.Context())
		require.Equal(e, 1, s.Failing)
		require.Equal(e, "output", s.Errors[0].Class)
		page, err := d.Objects(e.Context(), inspect.ObjectQuery{Status: "Error"})
		require.NoError(e, err)
		require.Len(e, page.Objects, 2)
		explained := d.Explain(e.Context(), "b")
		require.Equal(e, inspect.StateTerminal, explained.State)
		require.Equal(e, "an output row that it wants is in error", explained.Why)

		e.remove("a")
		require.NoError(e, e.waits(d, reconciler.Applied))
		_, err = wait(ofB)
		require.NoError(e, err)
		require.Zero(e, d.Figures().Failing)
	})
}

func TestWaitEndsWhenAnotherRowBeginsToFail(t *testing.T) {
	inBubble(t, func(e *env) {
		broken := "a"
		d, err := derive.Each(e.cfg, e.wishes, e.routes, func(w *wish) ([]*route, error) {
			if w.Name == broken {
				return nil, errors.New("no route")
			}
			return routesOf(w)
		})
		e.run(e.made(d, err))
		e.put(&wish{Name: "a"}, &wish{Name: "b", Places: "2"})
		ended := make(chan error, 1)
		go func() {
			_, err := d.WaitKey(e.Context(), "a", reconciler.Applied)
			ended <- err
		}()
		synctest.Wait()
		broken = "b"
		_, err = d.Refresh(e.Context())
		require.NoError(e, err)
		synctest.Wait()
		select {
		case err := <-ended:
			require.NoError(e, err)
		default:
			e.Error("the wait goes on although row a is derived")
		}
	})
}

func TestRefreshOfAllGoesOnInTheNextRun(t *testing.T) {
	inBubble(t, func(e *env) {
		var seen []string
		stop := func() {}
		d, err := derive.Each(e.cfg, e.wishes, e.routes, func(w *wish) ([]*route, error) {
			seen = append(seen, w.Name)
			stop()
			return routesOf(w)
		})
		e.made(d, err)
		end := e.run(d)
		e.put(&wish{Name: "a"}, &wish{Name: "b"}, &wish{Name: "c"})
		end()
		ctx, cancel := context.WithCancel(e.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		synctest.Wait()
		seen, stop = nil, cancel
		_, err = d.Refresh(e.Context())
		require.NoError(e, err)
		require.NoError(e, <-done)
		require.Equal(e, []string{"a"}, seen, "the run was to end at the first row")
		stop = func() {}
		e.run(d)
		require.Equal(e, []string{"a", "a", "b", "c"}, seen)
	})
}

// Another writer that is faster each time must not hold up the derivation. What it has written is kept.
func TestRowIsWrittenThoughAnotherWriterNeverRests(t *testing.T) {
	inBubble(t, func(e *env) {
		e.cfg.Same = func(current, derived *route) bool { return current.Metric == derived.Metric }
		merges := 0
		e.cfg.Merge = func(current, derived *route) *route {
			merged := *derived
			merged.Status = current.Status
			if merges++; merges == 20 {
				return &merged
			}
			var wrote atomic.Bool
			go func() {
				wtxn := e.db.WriteTxn(e.routes)
				defer wtxn.Abort()
				now, _, _ := e.routes.Get(wtxn, byPlace.Query("1"))
				other := *now
				other.Status += "x"
				_, _, err := e.routes.Insert(wtxn, &other)
				require.NoError(e, err)
				wtxn.Commit()
				wrote.Store(true)
			}()
			// If the table is locked, the writer comes later.
			for tries := 0; tries < 10_000 && !wrote.Load(); tries++ {
				runtime.Gosched()
			}
			return &merged
		}
		e.run(e.best())
		e.put(&wish{Name: "a", Places: "1"})
		e.other(&route{Place: "1", From: "a", Status: "done "})
		e.put(&wish{Name: "a", Places: "1 2"})
		require.Zero(e, merges, "equal but for the status")
		e.put(&wish{Name: "a", Places: "1", Metric: 7})
		require.Equal(e, 2, merges)
		require.Equal(e, &route{Place: "1", From: "a", Metric: 7, Status: "done xx"}, e.at("1"))
	})
}
