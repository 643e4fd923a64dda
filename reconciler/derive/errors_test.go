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

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/tests/harness"
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

func TestRetryReachesErrorsOfOutputs(t *testing.T) {
	inBubble(t, func(e *env) {
		broken := false
		e.cfg.Same = func(current, derived *route) bool {
			if broken {
				panic("odd row")
			}
			return *current == *derived
		}
		d := e.best()
		e.run(d)
		e.put(&wish{Name: "c", Places: "3"})
		for metric, keys := range [][]string{nil, {"1", "2"}, {"a"}, {"b", "2"}} {
			broken = true
			e.put(&wish{Name: "a", Places: "1 2", Metric: metric - 5}, &wish{Name: "b", Places: "1", Metric: 7})
			if metric == 0 { // nothing is compared with a row that was not there
				e.put(&wish{Name: "a", Places: "1 2", Metric: -9})
			}
			e.healthy("odd row")
			e.acts(0, d.Retry, "c", "3")
			e.acts(2, d.Retry, keys...)
			e.healthy("odd row")
			broken = false
			e.acts(2, d.Retry, keys...)
			e.healthy()
			require.NoError(e, e.waits(d, reconciler.Applied))
		}
		_, err := d.Retry(e.Context(), "4")
		require.ErrorIs(e, err, inspect.ErrNotFound)
	})
}

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
		e.acts(1, d.Retry)
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
			harness.Insert(e, e.db, e.routes, &route{Place: "1", From: "a", Status: "done"})
			merged := *derived
			return &merged
		}
		e.run(e.best())
		e.put(&wish{Name: "a", Places: "1"})
		table, err := inputs.Open(e.db, "routes")
		require.NoError(e, err)
		check := func([]string) {
			row, _ := table.Get(e.db.ReadTxn(), "wishes")
			assert.False(e, row.Input == 2 && row.Rejected == 0)
		}
		e.commits.after.Store(&check)
		e.put(&wish{Name: "a", Places: "1", Metric: 7})
		e.healthy("odd row")
		require.Equal(e, 1, e.published().Rejected)
	})
}

func TestRowsComeBeforeDeletionsThoughAnIndexPanics(t *testing.T) {
	inBubble(t, func(e *env) {
		d := e.best()
		d.SetMaxRows(2)
		e.run(d)
		e.put(&wish{Name: "a", Places: "o1 o2 o3"})
		e.picky.Store(true)
		check := func([]string) { assert.False(e, e.at("o1") == nil && e.at("n1") == nil) }
		e.commits.after.Store(&check)
		e.put(&wish{Name: "a", Places: "n1"}, &wish{Name: "b", Places: "n2", Metric: 13})
		e.has("n1<-a")
	})
}

// That row may derive nothing in the end.
func TestRowsOfAnEarlierDerivationStayWhileARowIsUnknown(t *testing.T) {
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
		e.acts(1, d.Retry)
		e.has()
	})
}

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
			// At the first call the table must not be locked: a hang is the failure. If it is later, the writer comes after that.
			for tries := 0; !wrote.Load() && (merges == 1 || tries < 10_000); tries++ {
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

// A row that derives nothing was derived, so none of the output is its own.
func TestPruneDoesNotWaitForARowThatWasDerivedToNothing(t *testing.T) {
	for name, before := range map[string]func(e *env){
		"after the first prune": func(e *env) {},
		"before it": func(e *env) {
			// A row that was never derived holds up the first prune.
			e.put(&wish{Name: "unknown", Fail: "error"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				d := e.each()
				before(e)
				e.run(d)
				e.put(&wish{Name: "a"})
				e.put(&wish{Name: "a", Fail: "error"})
				e.other(&route{Place: "foreign"})
				e.remove("unknown")
				d.Prune()
				synctest.Wait()
				e.has()
			})
		})
	}
}

func TestWaitForAClosedDerivationEnds(t *testing.T) {
	inBubble(t, func(e *env) {
		d := e.each()
		e.put(&wish{Name: "a", Places: "1"})
		ended := make(chan error, 2)
		wait := func() {
			_, err := d.WaitAll(e.Context(), reconciler.Applied)
			ended <- err
		}
		go wait()
		synctest.Wait()
		d.Close()
		wait()
		for range 2 {
			require.ErrorIs(e, <-ended, inspect.ErrStopped)
		}
		require.Equal(e, inspect.ConditionStopped, d.Snapshot(e.Context()).Condition)
		require.Contains(e, d.Explain(e.Context(), "a").Why, "the derivation is stopped")
	})
}

func TestAFunctionThatHangsIsNamed(t *testing.T) {
	for name, hangs := range map[string]struct {
		merge, locked bool
		key, want     string
	}{
		"function":                     {key: "h", want: "the function of h runs since"},
		"merge":                        {merge: true, key: "1", want: "Merge of 1 runs since"},
		"merge with the output locked": {merge: true, locked: true, key: "1", want: "Merge of 1 runs since"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				opened, merges := make(chan struct{}), 0
				e.cfg.Merge = func(_, derived *route) *route {
					merges++
					if hangs.locked && merges == 1 {
						harness.Insert(e, e.db, e.routes, &route{Place: "1", From: "other writer"})
					} else if hangs.merge {
						<-opened
					}
					return derived
				}
				d := e.made(derive.Each(e.cfg, e.wishes, e.routes, func(w *wish) ([]*route, error) {
					if w.Name == "h" && !hangs.merge {
						<-opened
					}
					return routesOf(w)
				}))
				e.run(d)
				e.other(&route{Place: "1"})
				e.put(&wish{Name: "h", Places: "1"})
				time.Sleep(9 * time.Second)
				synctest.Wait()
				e.healthy()
				require.Equal(e, inspect.ConditionRunning, d.Snapshot(e.Context()).Condition)
				time.Sleep(12 * time.Second)
				synctest.Wait()
				e.healthy(hangs.want)
				s := d.Snapshot(e.Context())
				require.Equal(e, inspect.ConditionBusy, s.Condition)
				require.Contains(e, s.Busy, hangs.want)
				require.Contains(e, d.Explain(e.Context(), hangs.key).Notes, s.Busy)
				close(opened)
				synctest.Wait()
				e.healthy()
				require.Equal(e, inspect.ConditionRunning, d.Snapshot(e.Context()).Condition)
				e.has("1<-h")
			})
		})
	}
}

func TestARowWhoseFunctionEndsItsGoroutineIsInError(t *testing.T) {
	inBubble(t, func(e *env) {
		ends := true
		d := e.made(derive.Each(e.cfg, e.wishes, e.routes, func(w *wish) ([]*route, error) {
			if w.Name == "b" && ends {
				runtime.Goexit()
			}
			return routesOf(w)
		}))
		e.put(&wish{Name: "a", Places: "1"}, &wish{Name: "b", Places: "2"}, &wish{Name: "c", Places: "3"})
		ended := make(chan error, 1)
		go func() { ended <- d.Run(e.Context()) }()
		synctest.Wait()
		require.Len(e, ended, 1)
		require.ErrorContains(e, <-ended, "a function of the program called runtime.Goexit")
		require.Contains(e, d.Explain(e.Context(), "b").Error, "runtime.Goexit")
		level, _, err := e.health.Scope("derive-routes").Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.ErrorContains(e, err, "runtime.Goexit")
		ends = false
		e.run(d)
		e.has("1<-a", "3<-c")
		e.acts(1, d.Retry, "b")
		e.has("1<-a", "2<-b", "3<-c")
		require.NoError(e, e.waits(d, reconciler.Applied))
	})
}
