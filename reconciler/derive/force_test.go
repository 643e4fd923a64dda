// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/edges"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// chained is a chain: wishes, routes, rules, and a loop, which calls decide in each operation.
type chained struct {
	*joined
	first  *derived
	second *derive.Derived[*route, *rule]
	loop   *reconciler.Loop[*rule]
	rules  statedb.RWTable[*rule]
	target *reconcilertest.Target[*rule]
}

func withChain(e *joined) *chained {
	first := e.made(derive.EachOf(e.cfg, e.wishes.ToTable(), e.routes, e.selects, e.label, e.zone))
	return withFirst(e, first)
}

func withFirst(e *joined, first *derived) *chained {
	c := &chained{joined: e, first: first, rules: newTable(e.env, "rules", byRule)}
	var err error
	c.second, err = derive.Each(derive.Config[*rule]{
		DB: e.db, Registry: e.cfg.Registry, Same: func(current, derived *rule) bool { return current.Want == derived.Want },
	}, e.routes.ToTable(), c.rules, rulesOf)
	require.NoError(e, err)
	e.Cleanup(c.second.Close)
	c.target = reconcilertest.NewTarget[*rule](func(r *rule) string { return r.Key }, nil)
	options := []reconciler.Option{reconciler.WithRetry(100*time.Millisecond, time.Second)}
	if e.cfg.Registry != nil {
		options = append(options, reconciler.WithRegistry(e.cfg.Registry))
	}
	c.loop, err = reconciler.New(reconciler.Config[*rule]{DB: e.db, Table: c.rules, Operations: c.target, Options: options})
	require.NoError(e, err)
	return c
}

// withStatuses replaces the loop by one of which the rows carry the statuses.
func (c *chained) withStatuses() {
	var err error
	options := []reconciler.Option{reconciler.WithRetry(100*time.Millisecond, time.Second)}
	if c.cfg.Registry != nil {
		options = append(options, reconciler.WithRegistry(c.cfg.Registry))
	}
	c.loop, err = reconciler.New(reconciler.Config[*rule]{
		DB: c.db, Table: c.rules, Operations: c.target, Clone: func(r *rule) *rule { now := *r; return &now },
		GetStatus: func(r *rule) reconciler.Status { return r.Status },
		SetStatus: func(r *rule, s reconciler.Status) *rule { r.Status = s; return r },
		Options:   options,
	})
	require.NoError(c, err)
}

func (c *chained) start() {
	reconcilertest.Go(c, c.loop.Run)
	reconcilertest.Go(c, c.second.Run)
	reconcilertest.Go(c, c.first.Run)
}

// fails has the operations on some rules fail.
func (c *chained) fails(keys ...string) {
	c.target.Decide(func(_ context.Context, call reconcilertest.Call[*rule]) error {
		for _, key := range keys {
			if call.Key == key {
				return errors.New("no such device")
			}
		}
		return nil
	})
}

// force returns what holds up a row, in one line each; none if it is in force.
func (c *chained) force(table, key string) (held []string) {
	f, err := c.registry.InForce(c.Context(), table, key)
	require.NoError(c, err)
	for _, x := range f.HeldUpBy {
		held = append(held, fmt.Sprintf("%s of %s: %s: %s: %s", x.Key, x.Table, x.State, x.Why, x.Error))
	}
	require.Equal(c, f.Yes, len(held) == 0)
	return held
}

func TestRowsOfAllInputsOfAJoinAreInForceOrSayWhyNot(t *testing.T) {
	withJoins(t, func(e *joined) {
		c := withChain(e)
		c.start()
		c.fails("a:p/in")
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"}, &wish{Name: "b", Places: "m"}, &wish{Name: "none", Places: "x"})
			put(e, wtxn, e.pods, &pod{"p", "l", "1"}, &pod{"q", "m", "1"})
		})
		refused := []string{"a:p/in of rules: retry: it has failed 1 time in a row and waits for its retry: no such device"}
		require.Equal(e, refused, c.force("wishes", "a"))
		require.Equal(e, refused, c.force("pods", "p"))
		require.Equal(e, refused, c.force("routes", "a:p"))
		require.Empty(e, c.force("wishes", "b"))
		require.Empty(e, c.force("pods", "q"))
		require.Empty(e, c.force("wishes", "none"), "it derives nothing")
		require.Empty(e, c.force("wishes", "absent"))

		// The pod leaves the wish, whose rule cannot be deleted: it is the change of both.
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "m", "2"}) })
		for _, row := range []struct{ table, key string }{{"pods", "p"}, {"wishes", "a"}, {"routes", "a:p"}} {
			held := c.force(row.table, row.key)
			require.Len(e, held, 1)
			require.Contains(e, held[0], "a:p/in of rules: retry")
		}
		require.Empty(e, c.force("wishes", "b"))
		c.fails()
		time.Sleep(10 * time.Second)
		require.Empty(e, c.force("pods", "p"))
		require.Empty(e, c.force("wishes", "a"))

		// A function that fails, at either derivation.
		e.put(&wish{Name: "a", Places: "l", Fail: "error"})
		require.Contains(e, c.force("wishes", "a")[0], "a of wishes: terminal: its function failed")
		require.Empty(e, c.force("wishes", "b"))
		_, err := e.registry.InForce(e.Context(), "nodes", "a")
		require.NoError(e, err)
		_, err = e.registry.InForce(e.Context(), "nothing", "a")
		require.ErrorIs(e, err, inspect.ErrNoReconciler)
	})
}

// What a row has derived stays while it fails: also what it derived from a row that is gone.
func TestWhatAFailingRowHasDerivedIsNotForgotten(t *testing.T) {
	withJoins(t, func(e *joined) {
		c := withChain(e)
		c.start()
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"})
			put(e, wtxn, e.pods, &pod{"p", "l", "1"})
		})
		require.Empty(e, c.force("pods", "p"))
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l", Fail: "error"})
			_, _, err := e.pods.Delete(wtxn, &pod{Name: "p"})
			require.NoError(e, err)
		})
		time.Sleep(time.Minute) // sweeps
		held := c.force("pods", "p")
		require.Len(e, held, 1)
		require.Contains(e, held[0], "a of wishes: terminal: its function failed")
		e.put(&wish{Name: "a", Places: "l"})
		require.Empty(e, c.force("pods", "p"))
	})
}

// byFirst returns a derivation with a route for each wish, which is from the first pod with its label. Wishes with the name
// "many" want a route for each of their places.
func byFirst(e *joined) *derived {
	return e.make(func(r *derive.Reader, w *wish) (out []*route, err error) {
		if w.Name == "many" {
			return routesOf(w)
		}
		for p := range e.label.List(r, w.Places) {
			return []*route{{Place: w.Name, From: p.Name + p.Addr}}, nil
		}
		return nil, nil
	})
}

// A row that Merge fails for stays: also what it has from a row that nothing looks up any more.
func TestWhatAnOutputRowInErrorHasIsNotForgotten(t *testing.T) {
	withJoins(t, func(e *joined) {
		var fails atomic.Bool
		e.cfg.Merge = func(_, derived *route) *route {
			if fails.Load() {
				panic("no merge")
			}
			return derived
		}
		c := withFirst(e, byFirst(e))
		c.start()
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"})
			put(e, wtxn, e.pods, &pod{"p", "l", "1"}, &pod{"q", "l", "1"})
		})
		require.Empty(e, c.force("pods", "p"))
		fails.Store(true)
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "m", "2"}) })
		for range 2 {
			require.Equal(e, "p1", e.at("a").From)
			held := c.force("pods", "p")
			require.NotEmpty(e, held)
			require.Contains(e, held[0], "no merge")
			time.Sleep(time.Minute + time.Second) // sweeps
		}
		fails.Store(false)
		time.Sleep(15 * time.Second)
		require.Empty(e, c.force("pods", "p"))
		require.Equal(e, "q1", e.at("a").From)
	})
}

// When too much has come apart, it is not known from which rows that are gone a row has what it has, which fails now.
func TestFailingRowHoldsUpAllWhenPairsWereForgotten(t *testing.T) {
	withJoins(t, func(e *joined) {
		c := withFirst(e, e.make(func(r *derive.Reader, w *wish) ([]*route, error) {
			if w.Name == "many" {
				return routesOf(w)
			}
			return e.selects(r, w)
		}))
		c.start()
		var places strings.Builder
		for i := range edges.MaxLost {
			fmt.Fprint(&places, "x", i, " ")
		}
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"}, &wish{Name: "many", Places: places.String()})
			put(e, wtxn, e.pods, &pod{"p", "l", "1"})
		})
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l", Fail: "error"})
			_, _, err := e.pods.Delete(wtxn, &pod{Name: "p"})
			require.NoError(e, err)
		})
		e.put(&wish{Name: "many"})
		time.Sleep(time.Minute) // sweeps
		require.NotNil(e, e.at("a:p"))
		held := c.force("pods", "p")
		require.NotEmpty(e, held)
		require.Contains(e, held[0], "which rows followed from it before is not remembered")
		e.put(&wish{Name: "a", Places: "l"})
		time.Sleep(time.Minute)
		require.Empty(e, c.force("pods", "p"))
	})
}

// What a derivation takes over may be of any row, as long as it cannot be written.
func TestOutputRowInErrorHoldsUpAllThatASuccessorDoesNotKnow(t *testing.T) {
	withJoins(t, func(e *joined) {
		e.cfg.Merge = func(_, derived *route) *route { return derived }
		c := withFirst(e, e.each())
		reconcilertest.Go(e, c.loop.Run)
		reconcilertest.Go(e, c.second.Run)
		stop := e.run(c.first)
		e.put(&wish{Name: "a", Places: "x"})
		require.Empty(e, c.force("wishes", "a"))
		stop()
		c.first.Close()
		var fails atomic.Bool
		fails.Store(true)
		e.cfg.Merge = func(_, derived *route) *route {
			if fails.Load() {
				panic("no merge")
			}
			return derived
		}
		e.remove("a")
		e.put(&wish{Name: "b", Places: "x"})
		e.run(e.each())
		time.Sleep(time.Minute) // sweeps
		require.Equal(e, "a", e.at("x").From)
		require.NotEmpty(e, c.force("wishes", "a"))
		fails.Store(false)
		time.Sleep(time.Minute)
		require.Empty(e, c.force("wishes", "a"))
		require.Equal(e, "b", e.at("x").From)
	})
}

// A derivation that notes nothing for the registry must not answer in it.
func TestDerivationWithoutARegistryHoldsUpWhatItIsAddedTo(t *testing.T) {
	withJoins(t, func(e *joined) {
		registry := e.cfg.Registry
		e.cfg.Registry = nil
		first := e.each()
		e.cfg.Registry = registry
		c := withFirst(e, first)
		registry.Add(first)
		c.start()
		e.put(&wish{Name: "a", Places: "x"})
		require.Empty(e, c.force("routes", "x"))
		c.fails("x/in")
		e.put(&wish{Name: "a"})
		f, err := e.registry.InForce(e.Context(), "wishes", "a")
		require.False(e, err == nil && f.Yes, "its rule is not deleted")
		registry.Remove(first)
	})
}

func TestLoopThatIsAddedByHandEndsWaits(t *testing.T) {
	withJoins(t, func(e *joined) {
		c := withChain(e)
		e.cfg.Registry = nil
		c.withStatuses()
		reconcilertest.Go(e, c.first.Run)
		reconcilertest.Go(e, c.second.Run)
		stop := reconcilertest.Go(e, c.loop.Run)
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"})
			put(e, wtxn, e.pods, &pod{"p", "l", "1"})
		})
		ctx, cancel := context.WithTimeout(e.Context(), time.Hour)
		defer cancel()
		over := make(chan error, 1)
		wait := func() {
			_, err := e.registry.WaitInForce(ctx, "wishes", "a")
			over <- err
		}
		go wait()
		time.Sleep(time.Minute)
		require.Empty(e, over)
		e.registry.Add(c.loop)
		time.Sleep(time.Second)
		require.NoError(e, <-over)

		c.fails("a:p/in")
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "2"}) })
		for range 2 { // as it stops, and after that
			go wait()
			time.Sleep(time.Minute)
			stop()
			require.ErrorIs(e, <-over, inspect.ErrStopped)
		}
	})
}

// What a row has led to does not lose to others because of it.
func TestRowThatLosesHoldsUpNoneThatLeadsToItNoMore(t *testing.T) {
	withJoins(t, func(e *joined) {
		first := e.made(derive.BestOf(e.cfg, e.wishes.ToTable(), e.routes, func(r *derive.Reader, w *wish) ([]*route, error) {
			from := w.Name
			for p := range e.label.List(r, w.Places) {
				from += p.Addr
			}
			return []*route{{Place: w.Fail, From: from}}, nil
		}, func(_ *derive.Reader, w *wish) int { return w.Metric }, e.label))
		c := withFirst(e, first)
		c.start()
		c.fails("other/in")
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l", Fail: "x", Metric: 1}, &wish{Name: "c", Fail: "other"})
			put(e, wtxn, e.pods, &pod{"p", "l", "1"})
		})
		require.Empty(e, c.force("pods", "p"))
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "b", Places: "m", Fail: "x"})
			put(e, wtxn, e.pods, &pod{"p", "m", "1"})
		})
		time.Sleep(time.Minute)
		require.Equal(e, "b1", e.at("x").From)
		require.NotEmpty(e, c.force("wishes", "a"), "it loses")
		require.Empty(e, c.force("pods", "p"))
	})
}

func TestRowThatLosesIsNotInForce(t *testing.T) {
	withJoins(t, func(e *joined) {
		e.best().Close()
		c := withFirst(e, e.best())
		c.start()
		e.put(&wish{Name: "a", Places: "x y", Metric: 2}, &wish{Name: "b", Places: "x", Metric: 4})
		// The derivation succeeds another one: it has to see once that all is in force.
		require.Contains(e, c.force("wishes", "a")[0], "which rows followed from it before is not remembered")
		time.Sleep(11 * time.Second)
		require.Empty(e, c.force("wishes", "a"))
		require.Equal(e, []string{`b of wishes: done: row x of table "routes" is that of a: `}, c.force("wishes", "b"))
	})
}

func TestPartThatDoesNotRunHoldsUpWhatFollows(t *testing.T) {
	withJoins(t, func(e *joined) {
		c := withChain(e)
		stop := reconcilertest.Go(e, c.first.Run)
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"})
			put(e, wtxn, e.pods, &pod{"p", "l", "1"})
		})
		const unread = ": unknown: no reconciler and no derivation of the registry works on this table: "
		require.Equal(e, []string{" of routes" + unread}, c.force("wishes", "a"))
		reconcilertest.Go(e, c.second.Run)
		synctest.Wait()
		require.Equal(e, []string{" of rules" + unread}, c.force("wishes", "a"))
		reconcilertest.Go(e, c.loop.Run)
		synctest.Wait()
		require.Empty(e, c.force("wishes", "a"))
		stop()
		require.Empty(e, c.force("routes", "a:p"))
		_, err := e.registry.InForce(e.Context(), "wishes", "a")
		require.ErrorIs(e, err, inspect.ErrNoReconciler)
	})
}

func TestWaitForARowEndsWhenTheLastOfItIsApplied(t *testing.T) {
	withJoins(t, func(e *joined) {
		c := withChain(e)
		c.start()
		c.fails("a:p/in")
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"})
			put(e, wtxn, e.pods, &pod{"p", "l", "1"})
		})
		ctx, cancel := context.WithTimeout(e.Context(), 10*time.Second)
		defer cancel()
		f, err := e.registry.WaitInForce(ctx, "wishes", "a")
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.ErrorContains(e, err, `a of table "wishes" is not in force: held up by a:p/in of table "rules": retry: it has failed`)
		require.False(e, f.Yes)
		healed := time.Now().Add(3 * time.Second)
		time.AfterFunc(3*time.Second, func() { c.fails() })
		f, err = e.registry.WaitInForce(e.Context(), "pods", "p")
		require.NoError(e, err)
		require.True(e, f.Yes)
		require.False(e, time.Now().Before(healed))
		require.Less(e, time.Since(healed), 2*time.Second, "the next retry")
		require.False(e, f.Since.Before(healed))
	})
}

func TestWaitEndsWhenAPartStopsThatTheRowDependsOn(t *testing.T) {
	for _, name := range []string{"loop", "second", "first"} {
		withJoins(t, func(e *joined) {
			c := withChain(e)
			stops := map[string]func(){
				"loop": reconcilertest.Go(e, c.loop.Run), "second": reconcilertest.Go(e, c.second.Run), "first": reconcilertest.Go(e, c.first.Run),
			}
			// The wait is at the first derivation, whatever stops.
			c.first.Pause()
			e.commit(func(wtxn statedb.WriteTxn) {
				put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"})
				put(e, wtxn, e.pods, &pod{"p", "l", "1"})
			})
			time.AfterFunc(time.Minute, stops[name])
			time.AfterFunc(2*time.Minute, c.first.Resume)
			ctx, cancel := context.WithTimeout(e.Context(), time.Hour)
			defer cancel()
			_, err := e.registry.WaitInForce(ctx, "wishes", "a")
			require.ErrorIs(e, err, inspect.ErrStopped, name)
			if name != "loop" {
				return
			}
			_, err = e.registry.WaitInForce(ctx, "wishes", "a")
			require.ErrorIs(e, err, inspect.ErrStopped, "it does not run again")
			require.Equal(e, " of rules: unknown: the reconciler has stopped: ", c.force("wishes", "a")[0])
		})
	}
}

// Each of the two inputs changes every millisecond, each operation takes ten.
func TestWaitEndsAlthoughAllRowsChangeAllTheTime(t *testing.T) {
	withJoins(t, func(e *joined) {
		c := withChain(e)
		var mu sync.Mutex
		applied := map[string]string{}
		c.target.Decide(func(_ context.Context, call reconcilertest.Call[*rule]) error {
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if call.Op == "update" {
				applied[call.Key] = call.Object.Want
			}
			return nil
		})
		c.start()
		changes := func(i int) {
			wtxn := e.db.WriteTxn(e.wishes, e.pods)
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"}, &wish{Name: "b", Places: "l"})
			put(e, wtxn, e.pods, &pod{"p", "l", fmt.Sprint(i)}, &pod{"q", "l", fmt.Sprint(i)})
			if i%2 == 0 {
				_, _, err := e.pods.Delete(wtxn, &pod{Name: "q"})
				require.NoError(e, err)
			}
			wtxn.Commit()
		}
		changes(0)
		ctx, cancel := context.WithCancel(e.Context())
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := 1; ctx.Err() == nil; i++ {
				time.Sleep(time.Millisecond)
				changes(i)
			}
		})
		defer writer.Wait()
		defer cancel()
		time.Sleep(time.Second)
		for _, row := range []struct{ table, key string }{{"pods", "p"}, {"wishes", "a"}, {"pods", "q"}, {"routes", "a:p"}} {
			now, _, _ := e.pods.Get(e.db.ReadTxn(), byPodName.Query("p"))
			began := time.Now()
			within, done := context.WithTimeout(e.Context(), 10*time.Second)
			f, err := e.registry.WaitInForce(within, row.table, row.key)
			done()
			require.NoError(e, err)
			require.True(e, f.Yes)
			require.Less(e, time.Since(began), time.Second)
			if row.key == "p" {
				mu.Lock()
				least, at := 0, 0
				_, err = fmt.Sscan(now.Addr, &least)
				require.NoError(e, err)
				_, err = fmt.Sscanf(applied["a:p/in"], "none:%d", &at)
				mu.Unlock()
				require.NoError(e, err)
				require.GreaterOrEqual(e, at, least)
			}
		}
	})
}

// The time counts from the change of the first table, also over a derivation that was behind.
func TestLatencyCountsFromTheBeginningOfTheChain(t *testing.T) {
	withJoins(t, func(e *joined) {
		c := withChain(e)
		c.start()
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "1"}) })
		c.second.Pause()
		e.put(&wish{Name: "a", Places: "l"})
		time.Sleep(5 * time.Second)
		c.second.Resume()
		synctest.Wait()
		h := c.loop.Figures().InForce
		require.EqualValues(e, 1, h.Count)
		require.InDelta(e, 5, h.Sum, 0.5)
		c.fails("a:p/in")
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "2"}) })
		time.Sleep(2 * time.Second)
		c.fails()
		time.Sleep(2 * time.Second)
		h = c.loop.Figures().InForce
		require.EqualValues(e, 2, h.Count)
		require.InDelta(e, 5+2.5, h.Sum, 1)
	})
}

// A change waits for the other inputs of a derivation, too.
func TestLatencyCountsTheWaitForOtherInputs(t *testing.T) {
	withJoins(t, func(e *joined) {
		c := withChain(e)
		var listed func(statedb.WriteTxn)
		e.commit(func(wtxn statedb.WriteTxn) { listed = e.nodes.RegisterInitializer(wtxn, "list") })
		c.start()
		time.Sleep(time.Hour)
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"})
			put(e, wtxn, e.pods, &pod{"p", "l", "1"})
		})
		time.Sleep(5 * time.Second)
		e.put(&wish{Name: "b", Places: "l"})
		time.Sleep(5 * time.Second)
		e.commit(func(wtxn statedb.WriteTxn) { listed(wtxn) })
		h := c.loop.Figures().InForce
		require.EqualValues(e, 2, h.Count)
		require.InDelta(e, 2*10, h.Sum, 0.5)
		time.Sleep(time.Hour)
		e.put(&wish{Name: "b", Places: "l", Metric: 2})
		e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "2"}) })
		require.InDelta(e, 2*10, c.loop.Figures().InForce.Sum, 0.5)
	})
}

// Both derivations wait for a further input, one after the other.
func TestLatencyCountsTheWaitsOfAllDerivations(t *testing.T) {
	withJoins(t, func(e *joined) {
		c := withFirst(e, e.made(derive.EachOf(e.cfg, e.wishes.ToTable(), e.routes, func(r *derive.Reader, w *wish) (out []*route, err error) {
			for p := range e.label.List(r, w.Places) {
				out = append(out, &route{Place: p.Name})
			}
			return out, nil
		}, e.label)))
		c.second.Close()
		var err error
		c.second, err = derive.EachOf(derive.Config[*rule]{DB: e.db, Registry: e.registry}, e.routes.ToTable(), c.rules,
			func(r *derive.Reader, row *route) ([]*rule, error) {
				_, _, _ = e.zone.Get(r, row.Place)
				return rulesOf(row)
			}, e.zone)
		require.NoError(e, err)
		e.Cleanup(c.second.Close)
		var pods, nodes func(statedb.WriteTxn)
		e.commit(func(wtxn statedb.WriteTxn) {
			pods, nodes = e.pods.RegisterInitializer(wtxn, "list"), e.nodes.RegisterInitializer(wtxn, "list")
		})
		c.start()
		time.Sleep(time.Minute)
		e.commit(func(wtxn statedb.WriteTxn) {
			put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"})
			put(e, wtxn, e.pods, &pod{"p", "l", "1"})
		})
		for _, listed := range []func(statedb.WriteTxn){pods, nodes} {
			time.Sleep(5 * time.Second)
			e.commit(func(wtxn statedb.WriteTxn) { listed(wtxn) })
		}
		h := c.loop.Figures().InForce
		require.EqualValues(e, 1, h.Count)
		require.InDelta(e, 10, h.Sum, 0.5)
	})
}

// A refresh that fails and is retried brings no change into force.
func TestLatencyDoesNotCountWhatWasInForceBefore(t *testing.T) {
	for _, beside := range []bool{true, false} {
		withJoins(t, func(e *joined) {
			c := withChain(e)
			if !beside {
				c.withStatuses()
			}
			c.start()
			e.commit(func(wtxn statedb.WriteTxn) {
				put(e, wtxn, e.wishes, &wish{Name: "a", Places: "l"})
				put(e, wtxn, e.pods, &pod{"p", "l", "1"})
			})
			require.EqualValues(e, 1, c.loop.Figures().InForce.Count)
			time.Sleep(time.Hour)
			c.fails("a:p/in")
			n, err := c.loop.Refresh(e.Context(), "a:p/in")
			require.NoError(e, err)
			require.Equal(e, 1, n)
			time.Sleep(time.Minute)
			c.fails()
			time.Sleep(time.Minute)
			require.Empty(e, c.force("wishes", "a"))
			require.EqualValues(e, 1, c.loop.Figures().InForce.Count)

			// A change that fails for different reasons counts from when it was made, though other rows follow it.
			var reason atomic.Int64
			c.target.Decide(func(_ context.Context, call reconcilertest.Call[*rule]) error {
				if call.Key == "a:p/in" && reason.Add(1) < 5 {
					return fmt.Errorf("reason %d", reason.Load())
				}
				return nil
			})
			e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"p", "l", "2"}) })
			changed := time.Now()
			time.Sleep(50 * time.Millisecond)
			e.commit(func(wtxn statedb.WriteTxn) { put(e, wtxn, e.pods, &pod{"other", "l", "2"}) })
			before := c.loop.Figures().InForce
			var took time.Duration
			for c.loop.Figures().InForce.Count == before.Count {
				time.Sleep(time.Millisecond)
				took = time.Since(changed)
			}
			require.InDelta(e, took.Seconds(), c.loop.Figures().InForce.Sum-before.Sum, 0.02)
		})
	}
}
