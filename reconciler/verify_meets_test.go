// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// quietly asks for looks from another goroutine, as an event does: the test does not wait for them.
func (e *env) quietly(ids ...uint64) func() {
	return func() {
		go func() {
			for _, id := range ids {
				_ = e.loop.Verify(context.Background(), &object{ID: id})
			}
		}()
	}
}

// As an operation that does so.
func TestGetThatCallsGoexit(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	for _, kind := range []string{"single", "batches"} {
		for _, workers := range []int{1, 4} {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				g := &getting{world: &world{target: e.target}}
				g.as(rows)
				e.put(1, 1, 2)
				cfg := e.config(reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
				cfg.Lister, cfg.Equal = g, func(wanted, found *object) bool { return wanted.Value == found.Value }
				operate(kind)(e, &cfg)
				looks := func(loop *reconciler.Loop[*object]) {
					e.pass(time.Second)
					g.drift(1, 7)
					g.gives(func(context.Context, uint64) (*object, bool, error) { runtime.Goexit(); return nil, false, nil })
					require.NoError(e, loop.Verify(e.Context(), &object{ID: 1}))
				}
				if workers == 1 {
					e.hasEnded(e.runEnds(cfg, looks))
					return
				}
				looks(e.start(cfg))
				e.pass(10 * time.Millisecond)
				require.Contains(e, e.get(1).Status.GetError(), goexitText)
				g.gives(nil)
				e.pass(time.Second)
				e.done(1, 2)
				require.Equal(e, rows, g.holds())
				e.stop()
			})
		}
	}
}

func TestSettingsChangeDuringALook(t *testing.T) {
	for _, workers := range []int{1, 4} {
		verifying(t, map[uint64]int{1: 1, 2: 1, 3: 1}, func(e *env, g *getting) {
			g.looksLate()
			g.drift(1, 7)
			g.drift(2, 7)
			e.quietly(1, 2)()
			e.pass(10 * time.Millisecond)
			require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) {
				s.Concurrency, s.Timeout, s.MaxRetries, s.RoundSize = workers, time.Second, 1, 1
			}))
			g.drift(3, 7)
			e.quietly(3)()
			e.pass(time.Second)
			require.Equal(e, map[uint64]int{1: 1, 2: 1, 3: 1}, g.holds())
			e.done(1, 2, 3)
			e.calmly()
		})
	}
}

// A plan changes nothing, a fight included, and has what the fight is about.
func TestPlanDuringAFight(t *testing.T) {
	verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
		end := e.another(g, 1, 5, time.Second, e.quietly(1))
		e.pass(time.Minute)
		was := e.loop.Explain(e.Context(), "1")
		require.Contains(e, was.Error, "contended: ")
		for range 10 {
			p, err := e.loop.Plan(e.Context())
			require.NoError(e, err)
			require.Equal(e, 1, p.Different+p.Adopted, "%s", p)
		}
		require.Equal(e, was.Next, e.loop.Explain(e.Context(), "1").Next)
		require.Equal(e, 1, e.loop.Figures().Unheld)
		end()
		e.pass(time.Minute)
		e.calmly()
		e.done(1)
	})
}

// Looks of others are no attempts, and those of retries fail as such.
func TestMaxRetriesCountsAttemptsOnly(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		g.gives(func(context.Context, uint64) (*object, bool, error) { return nil, false, errors.New("no answer") })
		g.failing("down")
		e.put(2, 1)
		for range 20 {
			e.pass(10 * time.Millisecond)
			e.verify(1)
		}
		require.Equal(e, "down", e.told(1).GetError())
		e.pass(time.Minute)
		require.Equal(e, "given up after 3 retries: down", e.told(1).GetError())
		require.Len(e, g.changes(), 4)
		g.gives(nil)
		g.drift(1, 2)
		e.verify(1)
		e.pass(time.Second)
		e.done(1)
		require.Empty(e, g.changes())
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 3 }))
}

// Of more fights than are remembered each is repaired, and ends.
func TestManyFights(t *testing.T) {
	const n = 1100
	rows := map[uint64]int{}
	for id := range uint64(n) {
		rows[1+id] = 1
	}
	verifying(t, rows, func(e *env, g *getting) {
		if e.loop.Config().Clone == nil || e.loop.Settings().Concurrency == 1 {
			return
		}
		stop := atomic.Bool{}
		defer stop.Store(true)
		objs := make([]*object, n)
		for i := range objs {
			objs[i] = &object{ID: uint64(1 + i)}
		}
		spoil := func() {
			state := g.holds()
			for id := range state {
				state[id] = 5
			}
			g.as(state)
			require.NoError(e, e.loop.Verify(e.Context(), objs...))
		}
		go func() {
			for !stop.Load() {
				spoil()
				time.Sleep(time.Second)
			}
		}()
		e.pass(time.Minute)
		require.Greater(e, e.loop.Figures().Unheld, 512)
		stop.Store(true)
		e.pass(time.Minute + time.Second)
		e.calmly()
		require.Equal(e, rows, g.holds())
		e.eachDone()
	})
}

// A look may take until then, and no operation begins after it.
func TestStopDuringALookCallsNoOperation(t *testing.T) {
	for _, outlasts := range []bool{false, true} {
		for _, retry := range []bool{false, true} {
			verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
				g.failing("down")
				if retry {
					e.put(2, 1)
				}
				e.pass(10 * time.Millisecond)
				g.failing("")
				g.take()
				g.gives(func(ctx context.Context, _ uint64) (*object, bool, error) {
					<-ctx.Done()
					if time.Sleep(time.Second); outlasts {
						return nil, false, nil
					}
					return nil, false, ctx.Err()
				})
				if !retry {
					e.quietly(1)()
				}
				e.pass(time.Second)
				e.stop()
				e.stop = func() {}
				require.NotZero(e, g.got()[1])
				require.Empty(e, g.changes())
			})
		}
	}
}

func TestDiffThatPanicsIsNoFailureOfALook(t *testing.T) {
	verifyingWith(t, map[uint64]int{1: 1}, func(_ *env, cfg *reconciler.Config[*object]) {
		cfg.Diff = func(_, _ *object) string { panic("odd") }
	}, func(e *env, g *getting) {
		g.drift(1, 7)
		e.verify(1)
		e.pass(10 * time.Millisecond)
		require.Equal(e, []string{"update(1)"}, g.changes())
		e.done(1)
	})
}

// The retry of an object that is looked at is due when the look is over.
func TestBreakerClosesDuringALook(t *testing.T) {
	verifying(t, map[uint64]int{1: 1, 2: 1, 3: 1}, func(e *env, g *getting) {
		g.failing("down")
		e.put(2, 1, 2, 3)
		e.pass(30 * time.Second)
		require.NotZero(e, e.loop.Figures().BreakerOpenings)
		g.looksLate()
		e.quietly(1, 2, 3)()
		e.pass(10 * time.Millisecond)
		g.failing("")
		_, err := e.loop.Retry(e.Context(), "3")
		require.NoError(e, err)
		e.pass(2 * time.Minute)
		e.done(1, 2, 3)
		require.Equal(e, map[uint64]int{1: 2, 2: 2, 3: 2}, g.holds())
	}, breaksAfter(2))
}

// Events must not hurry what has just failed, and a call of Reapply is not forgotten for them.
func TestReapplyOfARowThatWaitsForItsLook(t *testing.T) {
	for name, failure := range map[string]error{
		"retry": errors.New("down"), "later": reconciler.RetryAfter(errors.New("down"), time.Hour),
		"terminal": reconciler.TerminalError(errors.New("down")), "blocked": reconciler.Blocked("down"), "requeue": reconciler.Requeue(time.Hour),
	} {
		for _, during := range []bool{false, true} {
			verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
				if during && e.loop.Settings().Concurrency == 1 {
					return
				}
				g.deciding(func(call) error { return failure })
				e.put(2, 1)
				e.pass(10 * time.Millisecond)
				failed := time.Now().Add(-10 * time.Millisecond)
				g.deciding(nil)
				g.take()
				if during {
					g.gives(func(_ context.Context, id uint64) (*object, bool, error) {
						time.Sleep(20 * time.Millisecond)
						return nil, false, nil
					})
				}
				e.verify(1)
				if during {
					e.pass(10 * time.Millisecond)
				}
				_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
				require.NoError(e, err)
				g.gives(nil)
				e.pass(time.Second)
				calls := g.take()
				most := 1
				if name == "requeue" && during {
					// The look repairs it. That was not asked for by Reapply.
					most = 2
				}
				require.Len(e, calls, most, name)
				if failed := time.Since(failed); name != "requeue" && name != "blocked" {
					require.GreaterOrEqual(e, failed-time.Since(calls[0].at), 100*time.Millisecond, "the minimum backoff: %s, during %t", name, during)
				}
				e.done(1)
				require.Equal(e, 2, g.holds()[1])
			})
		}
	}
}

// Each of the two takes less time than a call may.
func TestCallAfterALookThatHangsIsNotStuck(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		g.failing("down")
		began := time.Now()
		e.put(2, 1)
		e.pass(10 * time.Millisecond)
		g.gives(func(ctx context.Context, _ uint64) (*object, bool, error) {
			<-ctx.Done()
			return nil, false, ctx.Err()
		})
		g.deciding(func(call) error { time.Sleep(30 * time.Second); return nil })
		e.pass(65 * time.Second)
		_, message, _ := e.health.Now()
		require.NotContains(e, message, "stuck")
		if e.loop.Settings().Concurrency == 1 {
			since := began.Add(40*time.Second + 100*time.Millisecond)
			require.Contains(e, e.loop.Snapshot(e.Context()).Busy, "running since "+since.Format(time.RFC3339))
		}
		g.gives(nil)
		g.deciding(nil)
		e.pass(time.Minute)
		e.done(1)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = 40 * time.Second }))
}

// The loop reads many rows, and a retry has run the version of a row that comes after them.
func TestReapplyOfAVersionThatRanBeforeItWasRead(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		each := time.Duration(e.loop.Settings().Concurrency) * time.Millisecond
		g.deciding(func(c call) error {
			if c.id > 1 {
				time.Sleep(each)
				return nil
			}
			g.drift(1, c.value)
			return errors.New("the answer was lost")
		})
		e.put(2, 1)
		e.pass(50 * time.Millisecond)
		var rows []*object
		for _, id := range append(ids(10, 4000), 1) {
			rows = append(rows, &object{ID: id, Value: 3, Status: reconciler.StatusPending(), Other: reconciler.StatusPending()})
		}
		e.Insert(rows...)
		e.pass(1500 * time.Millisecond)
		require.Equal(e, 3, g.holds()[1])
		g.deciding(func(c call) error { time.Sleep(each); return nil })
		g.take()
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.NoError(e, err)
		e.pass(10 * time.Second)
		calls := 0
		for _, c := range g.take() {
			if c.id == 1 {
				calls++
			}
		}
		require.Equal(e, 1, calls)
		e.done(1, 4000)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.RoundSize, s.MinBackoff = 10, time.Second }))
}

// It may hang before the calls, or after them. Others wait for the end of a batch, and for what was handed to the workers.
func TestTargetThatHangsHoldsOthersUpOnce(t *testing.T) {
	const n = 50
	rows := map[uint64]int{}
	for _, id := range ids(1, n) {
		rows[id] = 1
	}
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			verifying(t, rows, func(e *env, g *getting) {
				var mu sync.Mutex
				looks := map[uint64]int{}
				g.gives(func(ctx context.Context, id uint64) (*object, bool, error) {
					mu.Lock()
					looks[id]++
					first := looks[id] == 1
					mu.Unlock()
					if when == "after" && first {
						return nil, false, nil
					}
					<-ctx.Done()
					return nil, false, ctx.Err()
				})
				g.failing("down")
				e.put(2, ids(1, n)...)
				e.pass(50 * time.Millisecond)
				g.failing("")
				e.pass(100 * time.Millisecond)
				e.put(1, n+1)
				e.pass(5 * time.Second)
				e.done(n + 1)
				g.gives(nil)
				e.pass(time.Minute)
				e.done(ids(1, n)...)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }))
		})
	}
}

// The program may see more than Equal, also where the row would be looked at before its turn, or when it comes.
func TestNoLookTakesThePlaceOfAReapply(t *testing.T) {
	fail := func(e *env, g *getting, ids ...uint64) {
		g.deciding(func(c call) error { g.drift(c.id, c.value); return errors.New("the answer was lost") })
		e.put(2, ids...)
		e.pass(10 * time.Millisecond)
		g.deciding(nil)
		g.take()
	}
	reapply := func(e *env) {
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.NoError(e, err)
	}
	retry := func(e *env, key string) {
		_, err := e.loop.Retry(e.Context(), key)
		require.NoError(e, err)
	}
	for name, way := range map[string]func(e *env, g *getting){
		"verify": func(e *env, g *getting) { fail(e, g, 1); reapply(e); e.verify(1) },
		"resync": func(e *env, g *getting) { fail(e, g, 1); reapply(e); e.loop.Resync() },
		"call":   func(e *env, g *getting) { fail(e, g, 1); reapply(e); retry(e, "1") },
		"breaker": func(e *env, g *getting) {
			require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.BreakerFailures = 2 }))
			fail(e, g, 1, 2, 3)
			require.NotZero(e, e.loop.Figures().BreakersOpen)
			reapply(e)
			retry(e, "2")
		},
		"released": func(e *env, g *getting) {
			gate := make(chan struct{})
			fail(e, g, 1)
			g.drift(1, 1)
			g.deciding(func(call) error { return reconciler.Blocked("gate", gate) })
			e.pass(100 * time.Millisecond)
			g.drift(1, 2)
			g.deciding(nil)
			g.take()
			reapply(e)
			close(gate)
		},
		"paused retry": func(e *env, g *getting) {
			fail(e, g, 1)
			require.NoError(e, e.loop.PauseOnly("1"))
			e.pass(time.Second)
			reapply(e)
			e.loop.Resume()
		},
		"paused repair": func(e *env, g *getting) {
			require.NoError(e, e.loop.PauseOnly("1"))
			g.drift(1, 7)
			e.loop.Resync()
			e.pass(time.Second)
			g.drift(1, 1)
			reapply(e)
			e.loop.Resume()
		},
	} {
		t.Run(name, func(t *testing.T) {
			verifying(t, map[uint64]int{1: 1, 2: 1, 3: 1}, func(e *env, g *getting) {
				way(e, g)
				e.pass(time.Second)
				require.Equal(e, []string{"update(1)"}, g.changes())
				e.done(1, 2, 3)
			})
		})
	}
}

// A person has put the object right, and says so.
func TestTerminalRowIsWrittenDoneDuringItsLook(t *testing.T) {
	for _, right := range []bool{true, false} {
		verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
			if e.loop.Config().Clone == nil {
				return
			}
			g.deciding(func(call) error { return reconciler.TerminalError(errors.New("bad")) })
			e.put(2, 1)
			e.pass(time.Second)
			g.take()
			if right {
				g.drift(1, 2)
			}
			g.looksLate()
			e.quietly(1)()
			e.pass(10 * time.Millisecond)
			row := *e.get(1)
			row.Status = reconciler.StatusDone()
			revision := e.Insert(&row)
			e.pass(time.Second)
			e.done(1)
			require.Equal(e, revision, e.table.Revision(e.db.ReadTxn()), "nothing is written")
			require.Empty(e, g.changes())
			for _, c := range e.loop.Snapshot(e.Context()).States {
				require.Zero(e, c.Count, c)
			}
			e.calmly()
		})
	}
}

// The deletion works, and its answer is lost. It is not polled, although the updates were.
func TestDeletionAfterAPollEndsWhenALookFindsItGone(t *testing.T) {
	verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
		g.deciding(func(c call) error {
			if c.op == "update" {
				return reconciler.Requeue(time.Hour)
			}
			if _, has := g.holds()[c.id]; !has {
				return errors.New("not found")
			}
			g.drift(c.id, -1)
			return errors.New("timeout")
		})
		e.put(3, 1)
		e.pass(time.Second)
		g.take()
		e.remove(1)
		e.pass(10 * time.Minute)
		require.Equal(e, []string{"delete(1) fail"}, g.changes())
		require.Equal(e, inspect.StateAbsent, e.loop.Explain(e.Context(), "1").State)
	})
}
