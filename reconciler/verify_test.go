// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// getting is a world whose objects can be got.
type getting struct {
	*world
	mu sync.Mutex
	// gets are the objects that were got. instead is called in place of a look, if it is set.
	gets    []uint64
	instead func(ctx context.Context, id uint64) (*object, bool, error)
}

func (g *getting) Get(ctx context.Context, _ statedb.ReadTxn, wanted *object) (*object, bool, error) {
	g.mu.Lock()
	g.gets = append(g.gets, wanted.ID)
	instead := g.instead
	g.mu.Unlock()
	g.world.target.mu.Lock()
	overlap := g.world.target.running[wanted.ID]
	g.world.target.mu.Unlock()
	if overlap {
		panic("a get overlaps an operation of its object")
	}
	if instead != nil {
		return instead(ctx, wanted.ID)
	}
	value, has := g.holds()[wanted.ID]
	return &object{ID: wanted.ID, Value: value}, has, nil
}

// got returns how often each of the objects 1 to 9 was got since the last call.
func (g *getting) got() (n [10]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range g.gets {
		n[id]++
	}
	g.gets = nil
	return n
}

func (g *getting) gives(f func(ctx context.Context, id uint64) (*object, bool, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.instead = f
}

// looksLate lets Get return what the target had 100 ms before.
func (g *getting) looksLate() {
	g.gives(func(_ context.Context, id uint64) (*object, bool, error) {
		value, has := g.holds()[id]
		time.Sleep(100 * time.Millisecond)
		return &object{ID: id, Value: value}, has, nil
	})
}

// showsLate lets Get return another value for a while: the effects of operations come late.
func (g *getting) showsLate(d time.Duration) {
	until := time.Now().Add(d)
	g.gives(func(_ context.Context, id uint64) (*object, bool, error) {
		if time.Now().Before(until) {
			return &object{ID: id, Value: 9}, true, nil
		}
		return &object{ID: id, Value: g.holds()[id]}, true, nil
	})
}

// drift changes what the target has for an object; a negative value means nothing.
func (w *world) drift(id uint64, value int) {
	w.target.mu.Lock()
	defer w.target.mu.Unlock()
	if w.state[id] = value; value < 0 {
		delete(w.state, id)
	}
}

// verifying is resyncing with a target whose objects can be got. The operations of the start are over when test is called.
func verifying(t *testing.T, rows map[uint64]int, test func(e *env, g *getting), options ...reconciler.Option) {
	verifyingWith(t, rows, nil, test, options...)
}

// verifyingWith is verifying with a change of the configuration.
func verifyingWith(t *testing.T, rows map[uint64]int, change configure, test func(e *env, g *getting), options ...reconciler.Option) {
	var g *getting
	resyncing(t, begin{target: rows, rows: rows, change: func(e *env, w *world, cfg *reconciler.Config[*object]) {
		g = &getting{world: w}
		cfg.Lister = g
		if change != nil {
			change(e, cfg)
		}
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		w.take()
		test(e, g)
	}, options...)
}

// verify asks for looks.
func (e *env) verify(ids ...uint64) {
	e.Helper()
	var objs []*object
	for _, id := range ids {
		objs = append(objs, &object{ID: id})
	}
	require.NoError(e, e.loop.Verify(e.Context(), objs...))
}

func TestVerifyRepairsWhatDiffers(t *testing.T) {
	verifying(t, map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1}, func(e *env, g *getting) {
		lists := g.listed()
		g.drift(2, 7)
		g.drift(3, -1)
		g.drift(4, 9)
		before := e.loop.Figures()
		e.verify(1, 2, 3, 5)
		e.pass(10 * time.Millisecond)
		require.Equal(e, []string{"update(2)", "update(3)"}, g.changes())
		require.Equal(e, map[uint64]int{1: 1, 2: 1, 3: 1, 4: 9}, g.holds(), "nobody asked for 4")
		require.Equal(e, [10]int{1: 1, 2: 2, 3: 2}, g.got(), "what is equal is looked at once, a repair before and after")
		require.Equal(e, lists, g.listed())
		require.Equal(e, inspect.CauseVerify, e.causes()["2"])
		require.EqualValues(e, before.Updates.Done+2, e.loop.Figures().Updates.Done)
		e.done(1, 2, 3)
	})
}

// A program that watches its target sees its own writes, twice, late and in any order.
func TestEchoOfOwnWritesMakesNoOperation(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		const n = 1250 // 10,000 in all ways
		var objs []*object
		for id := range uint64(n) {
			objs = append(objs, &object{ID: 10 + id, Value: 1, Status: reconciler.StatusPending(), Other: reconciler.StatusPending()})
		}
		echo := func(ctx context.Context, c call) {
			go func() {
				for range 2 {
					_ = e.loop.Verify(context.WithoutCancel(ctx), &object{ID: c.id})
					time.Sleep(time.Duration(c.id%7) * time.Millisecond)
				}
			}()
		}
		g.first(func(ctx context.Context, c call) { echo(context.Background(), c) })
		e.Insert(objs...)
		e.pass(time.Minute)
		require.Len(e, g.ops(), n)
		ops := e.loop.Operations(inspect.OperationQuery{})
		require.False(e, slices.ContainsFunc(ops, func(o inspect.Operation) bool { return o.Cause == inspect.CauseVerify }))
		revision := e.table.Revision(e.db.ReadTxn())
		g.take()
		for range 3 {
			require.NoError(e, e.loop.Verify(e.Context(), objs...))
		}
		e.pass(time.Minute)
		require.Empty(e, g.ops())
		require.Equal(e, revision, e.table.Revision(e.db.ReadTxn()), "nothing is written")
		require.Equal(e, reconciler.StatusKindDone, e.told(10).Kind)
	})
}

func TestVerifyDuringAnOperationLooksAfterIt(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		if e.loop.Settings().Concurrency == 1 {
			return
		}
		g.first(func(context.Context, call) { time.Sleep(100 * time.Millisecond) })
		e.put(2, 1)
		e.pass(50 * time.Millisecond)
		g.got()
		e.verify(1)
		e.verify(1)
		e.pass(20 * time.Millisecond)
		require.Zero(e, g.got()[1])
		g.first(func(context.Context, call) {})
		e.pass(time.Second)
		require.Equal(e, 1, g.got()[1])
		require.Equal(e, []string{"update(1)"}, g.changes(), "the success counts")
		e.done(1)
	})
}

// A retry that waits is not made earlier, and its object is not called: only if the target is right, it is Done.
func TestFailingRowThatSomebodyPutsRightBecomesDone(t *testing.T) {
	for name, failure := range map[string]error{
		"retry": errors.New("down"), "later": reconciler.RetryAfter(errors.New("down"), time.Hour),
		"terminal": reconciler.TerminalError(errors.New("down")), "blocked": reconciler.Blocked("down"), "released": nil,
	} {
		t.Run(name, func(t *testing.T) {
			verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
				gate := make(chan struct{})
				g.deciding(func(call) error {
					if failure == nil {
						return reconciler.Blocked("gate", gate)
					}
					return failure
				})
				e.put(2, 1)
				e.pass(10 * time.Second)
				g.take()
				was := e.loop.Explain(e.Context(), "1")
				for range 50 {
					e.verify(1)
					e.pass(10 * time.Millisecond)
				}
				now := e.loop.Explain(e.Context(), "1")
				require.Empty(e, g.changes())
				require.Equal(e, was.Next, now.Next)
				require.Equal(e, was.State, now.State)
				require.Equal(e, was.Attempts, now.Attempts)
				require.NotZero(e, g.got()[1])
				g.drift(1, 2)
				e.verify(1)
				e.pass(10 * time.Millisecond)
				e.done(1)
				require.Empty(e, g.changes())
				require.Equal(e, inspect.CauseAdopted, e.causes()["1"])
				level, message, _ := e.health.Now()
				require.Equal(e, cell.StatusOK, level, message)
				rest, err := e.loop.WaitAll(e.Context(), reconciler.Applied)
				require.NoError(e, err)
				require.Empty(e, rest.Keys)
			})
		})
	}
}

// What a blocked row waits for may happen while it is looked at.
func TestBlockedRowIsReleasedDuringItsLook(t *testing.T) {
	for _, way := range []string{"in flight", "queued"} {
		t.Run(way, func(t *testing.T) {
			verifyingWith(t, map[uint64]int{1: 1, 2: 1}, serially(func(*object) string { return "all" }), func(e *env, g *getting) {
				if e.loop.Settings().Concurrency == 1 {
					return
				}
				gate := make(chan struct{})
				g.deciding(func(c call) error {
					if c.id == 1 {
						return reconciler.Blocked("gate", gate)
					}
					return nil
				})
				e.put(2, 1)
				e.pass(time.Second)
				g.deciding(nil)
				if way == "queued" {
					g.first(func(context.Context, call) { time.Sleep(100 * time.Millisecond) })
					e.put(2, 2)
					e.pass(10 * time.Millisecond)
				} else {
					g.looksLate()
				}
				e.verify(1)
				e.pass(10 * time.Millisecond)
				close(gate)
				e.pass(10 * time.Millisecond)
				g.first(func(context.Context, call) {})
				e.pass(time.Second)
				e.done(1, 2)
				require.Equal(e, 2, g.holds()[1])
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
		})
	}
}

// A call that somebody asked for although the target may be right waits for what it needs.
func TestBlockedReapplyIsNotReplacedByALook(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		gate := make(chan struct{})
		g.deciding(func(call) error { return reconciler.Blocked("gate", gate) })
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.NoError(e, err)
		e.pass(time.Second)
		g.deciding(nil)
		e.verify(1)
		e.loop.Resync()
		e.pass(time.Second)
		require.Equal(e, reconciler.StatusKindBlocked, e.told(1).Kind)
		g.take()
		close(gate)
		e.pass(time.Second)
		require.Equal(e, []string{"update(1)"}, g.changes())
		e.done(1)
	})
}

func TestResyncFindsFailingRowsThatAreRight(t *testing.T) {
	for _, gets := range []bool{true, false} {
		rows := map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1}
		resyncing(t, begin{target: rows, rows: rows, change: func(_ *env, w *world, cfg *reconciler.Config[*object]) {
			if gets {
				cfg.Lister = &getting{world: w}
			}
		}}, func(e *env, w *world, _ func()) {
			e.pass(time.Second)
			w.deciding(func(c call) error {
				return []error{
					reconciler.TerminalError(errors.New("bad")), reconciler.RetryAfter(errors.New("down"), time.Hour), errors.New("given up"),
					reconciler.Blocked("odd"),
				}[c.id%4]
			})
			e.put(2, ids(1, 8)...)
			e.pass(time.Second)
			w.take()
			for id := range uint64(4) {
				w.drift(1+id, 2)
			}
			p := e.plan(e.loop)
			require.Equal(e, 4, p.Adopted)
			require.Equal(e, "4 operation(s) to do: 4 different; 4 equal, 4 of which become Done", p.Summary())
			e.loop.Resync()
			e.pass(time.Second)
			e.done(1, 2, 3, 4)
			for _, id := range ids(5, 8) {
				require.NotEqual(e, reconciler.StatusKindDone, e.told(id).Kind)
			}
			require.Empty(e, w.changes())
			w.deciding(nil)
			_, err := e.loop.Retry(e.Context())
			require.NoError(e, err)
			e.pass(time.Second)
			e.done(ids(1, 8)...)
			require.Subset(e, w.changes(), []string{"update(5)", "update(6)", "update(7)", "update(8)"})
		}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries, s.BlockedRecheck = 1, 0 }))
	}
}

// Without Equal, that the target has the key does not mean that it has the change.
func TestFailingRowIsNotDoneSinceTheTargetHasItsKey(t *testing.T) {
	for name, failure := range map[string]error{
		"retry": errors.New("down"), "terminal": reconciler.TerminalError(errors.New("down")), "blocked": reconciler.Blocked("down"),
	} {
		t.Run(name, func(t *testing.T) {
			rows := map[uint64]int{1: 1}
			resyncing(t, begin{target: rows, rows: rows, change: func(_ *env, w *world, cfg *reconciler.Config[*object]) {
				cfg.Equal, cfg.Diff = nil, nil
			}}, func(e *env, w *world, _ func()) {
				e.pass(time.Second)
				w.deciding(func(call) error { return failure })
				e.put(2, 1)
				e.pass(10 * time.Millisecond)
				e.verify(1)
				e.loop.Resync()
				e.pass(time.Second)
				require.NotEqual(e, reconciler.StatusKindDone, e.told(1).Kind)
				require.Zero(e, e.plan(e.loop).Adopted)
				w.deciding(nil)
				_, err := e.loop.Retry(e.Context())
				require.NoError(e, err)
				e.pass(time.Second)
				e.done(1)
				require.Equal(e, 2, w.holds()[1])
			})
		})
	}
}

// The row of an adapter stays until its resource is gone: that it is still there is what is wrong.
func TestLookDoesNotEndAnUpdateThatDeletes(t *testing.T) {
	for name, failure := range map[string]error{
		"retry": errors.New("down"), "later": reconciler.RetryAfter(errors.New("down"), time.Hour),
		"final": reconciler.TerminalError(errors.New("down")), "blocked": reconciler.Blocked("down"), "requeue": reconciler.Requeue(time.Hour),
	} {
		for _, gets := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, gets %t", name, gets), func(t *testing.T) {
				rows := map[uint64]int{1: 1}
				resyncing(t, begin{target: rows, rows: rows, change: func(e *env, w *world, cfg *reconciler.Config[*object]) {
					if gets {
						cfg.Lister = &getting{world: w}
					}
				}}, func(e *env, w *world, _ func()) {
					if cfg := e.loop.Config(); cfg.BatchOperations != nil || cfg.RoundOperations != nil {
						return // adapters have single operations
					}
					e.pass(time.Second)
					marking(e)
					w.deciding(func(call) error { return failure })
					e.put(0, 1)
					e.pass(10 * time.Millisecond)
					w.drift(1, 0)
					for range 3 {
						e.verify(1)
						e.pass(10 * time.Millisecond)
						e.loop.Resync()
						e.pass(10 * time.Millisecond)
						require.NotEqual(e, reconciler.StatusKindDone, e.told(1).Kind)
					}
					w.deciding(nil)
					w.take()
					_, err := e.loop.Retry(e.Context(), "1")
					require.NoError(e, err)
					e.pass(time.Second)
					e.done(1)
					require.Equal(e, []string{"update(1)"}, w.changes())
				}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
			})
		}
	}
}

// What an attempt has left is not known, but by a look.
func TestRetryBeginsWithALook(t *testing.T) {
	verifying(t, map[uint64]int{1: 1, 2: 1, 3: 1}, func(e *env, g *getting) {
		g.deciding(func(c call) error {
			if c.id == 1 {
				g.drift(1, c.value)
			}
			if c.id == 2 && c.op == "delete" {
				g.drift(2, -1)
			}
			return errors.New("the answer was lost")
		})
		e.put(2, 1, 3)
		e.remove(2)
		e.pass(50 * time.Millisecond)
		require.Equal(e, []string{"delete(2) fail", "update(1) fail", "update(3) fail"}, g.changes())
		e.pass(100 * time.Millisecond)
		require.Equal(e, []string{"update(3) fail"}, g.changes())
		e.done(1)
		g.deciding(nil)
		e.pass(time.Second)
		require.Equal(e, map[uint64]int{1: 2, 3: 2}, g.holds())
		e.done(1, 3)
		_, err := e.loop.WaitAll(e.Context(), reconciler.Applied)
		require.NoError(e, err)
	})
}

// Whatever has held up the retry in between.
func TestRetryBeginsWithALookAfterAPause(t *testing.T) {
	for name, between := range map[string]func(e *env, gate chan struct{}){
		"pause": func(e *env, _ chan struct{}) {
			require.NoError(e, e.loop.PauseOnly("1"))
			e.pass(time.Second)
			e.loop.Resume()
		},
		"call":  func(e *env, _ chan struct{}) { _, _ = e.loop.Retry(e.Context(), "1") },
		"block": func(e *env, gate chan struct{}) { e.pass(time.Second); close(gate) },
	} {
		t.Run(name, func(t *testing.T) {
			verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
				gate := make(chan struct{})
				g.deciding(func(c call) error { g.drift(1, c.value); return errors.New("the answer was lost") })
				e.put(2, 1)
				e.pass(10 * time.Millisecond)
				if name == "block" {
					g.drift(1, 1)
					g.deciding(func(c call) error { return reconciler.Blocked("gate", gate) })
					e.pass(200 * time.Millisecond)
					g.drift(1, 2)
				}
				g.deciding(nil)
				g.take()
				between(e, gate)
				e.pass(time.Second)
				e.done(1)
				require.Empty(e, g.changes())
			})
		})
	}
}

// A version of a row that was not attempted is no retry: the program may see more than Equal.
func TestHeldChangeThatIsHurriedIsCalled(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		g.failing("down")
		e.put(2, 1)
		e.pass(10 * time.Millisecond)
		g.failing("")
		g.drift(1, 3)
		e.put(3, 1)
		e.pass(10 * time.Millisecond)
		g.take()
		_, err := e.loop.Retry(e.Context(), "1")
		require.NoError(e, err)
		e.pass(time.Second)
		require.Equal(e, []string{"update(1)"}, g.changes())
		e.done(1)
	})
}

// A call that somebody asked for although the target may be right is made, also when it has failed once.
func TestFailedReapplyIsRetriedWithoutALook(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		g.failing("down")
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.NoError(e, err)
		e.pass(50 * time.Millisecond)
		g.failing("")
		e.pass(time.Second)
		require.Equal(e, []string{"update(1)", "update(1) fail"}, g.changes())
		require.Zero(e, g.got()[1])
		e.done(1)
	})
}

// It must not go on if a look fails, hangs, panics or is an outcome.
func TestGetThatFailsIsAFailureOfItsObject(t *testing.T) {
	for name, get := range map[string]func(ctx context.Context) error{
		"error":   func(context.Context) error { return errors.New("no answer") },
		"hang":    func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"panic":   func(context.Context) error { panic("odd") },
		"outcome": func(context.Context) error { return reconciler.Requeue(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
				g.gives(func(ctx context.Context, id uint64) (*object, bool, error) { return nil, false, get(ctx) })
				g.drift(1, 7)
				e.verify(1)
				if e.pass(50 * time.Millisecond); name == "hang" {
					e.pass(time.Second)
				}
				s := e.told(1)
				require.Equal(e, reconciler.StatusKindError, s.Kind)
				require.Contains(e, s.GetError(), "looking at the object in the target: ")
				require.Empty(e, g.changes())
				e.pass(5 * time.Second)
				e.done(1)
				require.Equal(e, []string{"update(1)"}, g.changes(), "the retry does without")
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }))
		})
	}
}

// It says what is not so, in both ways.
func TestGetThatLiesIsNoWorseThanNone(t *testing.T) {
	verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
		g.gives(func(_ context.Context, id uint64) (*object, bool, error) { return &object{ID: id, Value: 1}, true, nil })
		g.drift(1, 7)
		e.verify(1, 2)
		e.pass(time.Second)
		require.Empty(e, g.changes())
		e.put(3, 1)
		e.pass(time.Second)
		require.Equal(e, 3, g.holds()[1], "a change is applied")
	})
}

func TestVerifiedRowStillWaitsForItsRequeue(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		g.deciding(func(call) error { return reconciler.Requeue(10 * time.Second) })
		e.put(2, 1)
		e.pass(time.Second)
		require.Len(e, g.changes(), 1)
		e.verify(1)
		e.pass(time.Second)
		require.Empty(e, g.changes())
		require.Equal(e, 1, g.got()[1])
		e.pass(10 * time.Second)
		require.Len(e, g.changes(), 1, "the poll goes on")
		g.drift(1, 5)
		e.verify(1)
		e.pass(time.Second)
		require.Len(e, g.changes(), 1)
		e.pass(20 * time.Second)
		require.Len(e, g.changes(), 2, "and on")
	})
}

// A resync leaves it alone, and it is not in the target.
func TestRowThatWaitsForItsRequeueIsNotSaidToBeInTheTarget(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		w.deciding(func(call) error { return reconciler.Requeue(time.Hour) })
		e.put(2, 1)
		e.pass(time.Second)
		require.Contains(e, e.loop.Explain(e.Context(), "1").Why, "it is in the target")
		w.drift(1, -1)
		e.loop.Resync()
		e.pass(time.Second)
		why := e.loop.Explain(e.Context(), "1").Why
		require.NotContains(e, why, "it is in the target")
		require.Contains(e, why, "missing in the target")
		e.pass(time.Hour)
		require.Contains(e, e.loop.Explain(e.Context(), "1").Why, "it is in the target")
	})
}

func TestVerifyWithoutAGetterIsAResync(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		w.drift(2, 9)
		e.verify(1)
		e.pass(time.Second)
		require.Equal(e, rows, w.holds())
	})
	inBubble(t, func(e *env) {
		require.ErrorContains(e, e.loop.Verify(e.Context(), &object{ID: 1}), "set Config.Lister")
	}, nil)
	inBubble(t, func(e *env) {
		require.ErrorContains(e, e.loop.Verify(e.Context(), &object{ID: 1}), "Config.OrphansOnly is set")
		require.Equal(e, errLost, reconciler.Suspect(e.Context(), e.loop, &object{ID: 1}, errLost))
	}, func(e *env, cfg *reconciler.Config[*object]) {
		cfg.Lister, cfg.OrphansOnly = &getting{world: &world{target: e.target}}, true
	})
}

func TestVerifyIsRefusedWhereItWouldWaitForItself(t *testing.T) {
	for _, gets := range []bool{true, false} {
		verifyingWith(t, map[uint64]int{1: 1}, func(_ *env, cfg *reconciler.Config[*object]) {
			if g := cfg.Lister.(*getting); !gets {
				cfg.Lister = g.world
			}
		}, func(e *env, g *getting) {
			var err error
			g.first(func(ctx context.Context, _ call) { err = e.loop.Verify(ctx, &object{ID: 1}) })
			e.put(2, 1)
			e.pass(time.Second)
			require.ErrorIs(e, err, reconciler.ErrInOperation)
			e.stop()
			e.stop = func() {}
			require.ErrorIs(e, e.loop.Verify(e.Context(), &object{ID: 1}), inspect.ErrStopped)
		})
	}
}

// otherGet is a Lister with a Get of another meaning.
type otherGet struct{ *world }

func (otherGet) Get(uint64) (*object, bool) { panic("it is not for the reconciler") }

func TestGetOfAnotherMeaningIsNotCalled(t *testing.T) {
	rows := map[uint64]int{1: 1}
	resyncing(t, begin{target: rows, rows: rows, change: func(_ *env, w *world, cfg *reconciler.Config[*object]) {
		cfg.Lister = otherGet{w}
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		w.drift(1, 5)
		e.verify(1)
		e.pass(time.Second)
		require.Equal(e, rows, w.holds())
	})
}

// A look that changes nothing must not keep the group of its object.
func TestLookLeavesItsGroup(t *testing.T) {
	for name, failure := range map[string]error{
		"later": reconciler.RetryAfter(errors.New("down"), time.Hour), "terminal": reconciler.TerminalError(errors.New("down")),
		"requeue": reconciler.Requeue(time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			verifyingWith(t, map[uint64]int{1: 1, 2: 1}, serially(func(*object) string { return "all" }), func(e *env, g *getting) {
				g.deciding(func(call) error { return failure })
				e.put(2, 1)
				e.pass(time.Second)
				g.deciding(nil)
				e.verify(1)
				e.pass(time.Second)
				require.NotZero(e, g.got()[1])
				e.put(2, 2)
				e.pass(time.Second)
				e.done(2)
				require.Equal(e, 2, g.holds()[2])
			})
		})
	}
}

// What changes during a look that finds nothing to do is looked at after it.
func TestVerifyDuringALookLooksAgain(t *testing.T) {
	for name, failure := range map[string]error{
		"requeue": reconciler.Requeue(time.Hour), "done": nil,
	} {
		t.Run(name, func(t *testing.T) {
			verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
				if e.loop.Settings().Concurrency == 1 {
					return
				}
				g.deciding(func(call) error { return failure })
				e.put(2, 1)
				e.pass(time.Second)
				g.take()
				g.looksLate()
				e.verify(1)
				e.pass(50 * time.Millisecond)
				g.drift(1, 7)
				e.verify(1)
				e.pass(time.Second)
				require.Equal(e, 2, g.holds()[1])
			})
		})
	}
}

// The same for a failing row that is put right meanwhile.
func TestVerifyDuringALookOfAFailingRow(t *testing.T) {
	verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
		if e.loop.Settings().Concurrency == 1 {
			return
		}
		g.deciding(func(call) error { return reconciler.TerminalError(errors.New("down")) })
		e.put(2, 1)
		e.pass(time.Second)
		g.looksLate()
		e.verify(1)
		e.pass(50 * time.Millisecond)
		g.drift(1, 2)
		e.verify(1)
		e.pass(time.Second)
		e.done(1)
	})
}

// A call of Retry counts, whenever the object is looked at.
func TestRetryDuringALook(t *testing.T) {
	for _, way := range []string{"flight", "paused", "queued"} {
		t.Run(way, func(t *testing.T) {
			verifyingWith(t, map[uint64]int{1: 1, 2: 1}, serially(func(*object) string { return "all" }), func(e *env, g *getting) {
				if e.loop.Settings().Concurrency == 1 {
					return
				}
				g.deciding(func(call) error { return reconciler.TerminalError(errors.New("down")) })
				e.put(2, 1)
				e.pass(time.Second)
				g.deciding(nil)
				g.take()
				resume := func() {}
				switch way {
				case "flight":
					g.gives(func(_ context.Context, id uint64) (*object, bool, error) {
						time.Sleep(100 * time.Millisecond)
						return nil, false, nil
					})
				case "paused":
					resume = e.loop.Resume
					require.NoError(e, e.loop.PauseOnly("1"))
				case "queued":
					g.first(func(context.Context, call) { time.Sleep(time.Second) })
					e.put(3, 2)
				}
				e.pass(10 * time.Millisecond)
				e.verify(1)
				e.pass(10 * time.Millisecond)
				n, err := e.loop.Retry(e.Context(), "1")
				require.NoError(e, err)
				e.Log("retried", n)
				g.first(func(context.Context, call) {})
				g.gives(nil)
				resume()
				e.pass(10 * time.Second)
				e.done(1)
				require.Equal(e, 2, g.holds()[1])
			})
		})
	}
}

// A get that takes longer than an operation may must not keep others, or its own object, from being called.
func TestGetThatIsStuckKeepsNoOtherObjectWaiting(t *testing.T) {
	verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
		g.gives(func(_ context.Context, id uint64) (*object, bool, error) {
			time.Sleep(5 * time.Second)
			return nil, false, nil
		})
		g.failing("down")
		e.put(2, 1)
		e.pass(50 * time.Millisecond)
		g.failing("")
		e.pass(30 * time.Second)
		e.Log(g.got()[1])
		e.done(1)
		g.drift(1, 5)
		e.verify(1)
		e.pass(30 * time.Second)
		e.Log(g.got()[1])
		require.Equal(e, 2, g.holds()[1])
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }))
}
