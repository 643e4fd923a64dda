// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// calmly checks health, and that no repairs are undone.
func (e *env) calmly() {
	e.Helper()
	level, message, err := e.health.Now()
	require.Equal(e, cell.StatusOK, level, "%s: %v", message, err)
	require.Zero(e, e.loop.Figures().Unheld)
}

// another plays another program: until end is called, each period and a millisecond more, it undoes what the loop has done
// about an object, and an event says so. A negative value means that it deletes the object.
func (e *env) another(g *getting, id uint64, value int, period time.Duration, event func()) (end func()) {
	stop, ended := make(chan struct{}), sync.WaitGroup{}
	ended.Go(func() {
		for {
			select {
			case <-stop:
				return
			// Not at the instant of a retry: what comes between a call and the look after it makes the operation ineffective.
			case <-time.After(period + time.Millisecond):
			}
			if has, is := g.holds()[id]; is != (value >= 0) || has != value && is {
				g.drift(id, value)
				event()
			}
		}
	})
	end = sync.OnceFunc(func() { close(stop); ended.Wait() })
	e.Cleanup(end)
	return end
}

func TestContendedObjectBacksOffAndSaysSo(t *testing.T) {
	for _, period := range []time.Duration{30 * time.Millisecond, time.Second, 7 * time.Second} {
		verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
			end := e.another(g, 1, 5, period, func() { go func() { _ = e.loop.Verify(context.Background(), &object{ID: 1}) }() })
			// The events of our own writes, too.
			g.first(func(context.Context, call) {
				go func() { time.Sleep(time.Millisecond); _ = e.loop.Verify(context.Background(), &object{ID: 1}) }()
			})
			e.pass(4 * period)
			e.calmly()
			e.pass(time.Minute)
			s := e.told(1)
			require.Equal(e, reconciler.StatusKindError, s.Kind)
			require.Contains(e, s.GetError(), "contended: after each of the last ")
			require.Contains(e, s.GetError(), "the last time to 1 != 5")
			require.Contains(e, e.loop.Explain(e.Context(), "1").Error, "contended: ")
			require.Contains(e, e.objects(inspect.ObjectQuery{Status: "Error"}).Objects[0].Error, "contended: ")
			_, message, err := e.health.Now()
			require.Contains(e, message, "repairs do not hold")
			require.ErrorContains(e, err, "contended: ")
			require.Equal(e, 1, e.loop.Figures().Unheld)
			e.done(2)
			g.take()
			g.got()
			e.pass(10 * time.Minute)
			require.LessOrEqual(e, len(g.changes()), 25, "it repairs at most every half minute or so")
			require.LessOrEqual(e, g.got()[1], 60)
			end()
			e.pass(time.Minute)
			e.calmly()
			e.done(1, 2)
			require.Equal(e, map[uint64]int{1: 1, 2: 1}, g.holds())
			g.drift(1, 5)
			e.verify(1)
			e.pass(time.Second)
			e.calmly()
			e.done(1)
		})
	}
}

// Whenever the other stops, the fight is over when the maximum backoff has passed.
func TestFightIsOverAMinuteAfterItsEnd(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 10 * time.Second, 29 * time.Second, 31 * time.Second, 59 * time.Second} {
		verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
			end := e.another(g, 1, 5, 100*time.Millisecond, func() { go func() { _ = e.loop.Verify(context.Background(), &object{ID: 1}) }() })
			e.pass(5*time.Minute + after)
			require.Contains(e, e.told(1).GetError(), "contended: ")
			end()
			e.pass(time.Minute)
			e.calmly()
			e.done(1)
		})
	}
}

// An update that asks for another run each time has repaired the object all the same.
func TestContendedObjectThatPolls(t *testing.T) {
	for _, period := range []time.Duration{time.Second, 7 * time.Second, 15 * time.Second} {
		verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
			g.deciding(func(call) error { return reconciler.Requeue(10 * time.Second) })
			e.put(2, 1)
			e.pass(time.Second)
			end := e.another(g, 1, 5, period, func() { go func() { _ = e.loop.Verify(context.Background(), &object{ID: 1}) }() })
			e.pass(3 * time.Minute)
			require.Contains(e, e.told(1).GetError(), "contended: ")
			g.take()
			e.pass(10 * time.Minute)
			require.LessOrEqual(e, len(g.changes()), 25)
			end()
			e.pass(time.Minute)
			e.calmly()
			e.done(1)
			g.take()
			e.pass(time.Minute)
			require.GreaterOrEqual(e, len(g.changes()), 5, "the poll goes on")
			e.calmly()
		})
	}
}

// A poll is not lost when its object is found right, whatever has come between.
func TestPollGoesOnAfterALookThatFindsItRight(t *testing.T) {
	polls := func(call) error { return reconciler.Requeue(10 * time.Second) }
	for name, failure := range map[string]error{
		"retry": errors.New("down"), "later": reconciler.RetryAfter(errors.New("down"), time.Hour),
		"terminal": reconciler.TerminalError(errors.New("down")), "blocked": reconciler.Blocked("down"),
	} {
		t.Run(name, func(t *testing.T) {
			verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
				g.deciding(polls)
				e.put(2, 1)
				e.pass(time.Second)
				g.deciding(func(call) error { return failure })
				e.put(3, 1)
				e.pass(time.Second)
				g.drift(1, 3)
				g.deciding(polls)
				e.verify(1)
				e.pass(time.Second)
				e.done(1)
				g.take()
				e.pass(time.Minute)
				require.GreaterOrEqual(e, len(g.changes()), 5, "the poll goes on")
			})
		})
	}
	// The effect of a repair comes late.
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		g.deciding(polls)
		e.put(2, 1)
		e.pass(time.Second)
		g.showsLate(50 * time.Millisecond)
		e.verify(1)
		e.pass(20 * time.Second)
		e.calmly()
		e.done(1)
		g.take()
		e.pass(time.Minute)
		require.GreaterOrEqual(e, len(g.changes()), 5, "the poll goes on")
	})
}

// Failures of a poll are retried as such: to find its object right says nothing about them.
func TestPollThatFailsIsCalledAgain(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		g.deciding(func(call) error { return reconciler.Requeue(10 * time.Second) })
		e.put(2, 1)
		e.pass(time.Second)
		g.failing("the server is gone")
		e.pass(time.Minute)
		require.Equal(e, reconciler.StatusKindError, e.told(1).Kind)
		require.LessOrEqual(e, len(g.changes()), 12, "it backs off")
		g.deciding(nil)
		e.pass(time.Minute)
		e.done(1)
	})
}

// Another version of the row is applied during a fight, and is no part of it.
func TestChangeDuringAFightIsNoRepair(t *testing.T) {
	for _, way := range []string{"retried", "probe"} {
		verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
			end := e.another(g, 1, 5, 100*time.Millisecond, func() { go func() { _ = e.loop.Verify(context.Background(), &object{ID: 1}) }() })
			e.pass(time.Minute)
			require.Equal(e, 1, e.loop.Figures().Unheld)
			end()
			if way == "probe" {
				g.deciding(func(c call) error {
					if c.id == 2 {
						return errors.New("down")
					}
					return nil
				})
				e.put(2, 2)
				e.pass(time.Second)
				require.NotZero(e, e.loop.Figures().BreakerOpenings)
				e.put(4, 1)
				e.pass(2 * time.Minute)
				g.deciding(nil)
			} else {
				// It has just failed, and the change is held.
				_, err := e.loop.Retry(e.Context(), "1")
				require.NoError(e, err)
				e.pass(10 * time.Millisecond)
				e.put(4, 1)
				e.pass(10 * time.Millisecond)
				_, err = e.loop.Retry(e.Context(), "1")
				require.NoError(e, err)
				e.pass(10 * time.Millisecond)
			}
			e.done(1)
			require.Equal(e, 4, g.holds()[1])
			require.Zero(e, e.loop.Figures().Unheld)
		}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BreakerFailures = 1 }))
	}
}

// It is repaired each time, without an alarm.
func TestObjectThatIsLostNowAndThenIsNotContended(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		for range 20 {
			g.drift(1, -1)
			e.verify(1)
			e.pass(10 * time.Millisecond)
			e.verify(1)
			e.pass(40 * time.Second)
			e.verify(1)
			e.pass(10 * time.Millisecond)
			require.Equal(e, map[uint64]int{1: 1}, g.holds())
			e.calmly()
			e.done(1)
		}
	})
}

// What the loop wants itself is nobody's fight.
func TestChangesOfARowAreNoFight(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		for i := range 30 {
			e.put(2+i, 1)
			e.verify(1)
			e.pass(10 * time.Millisecond)
			g.drift(1, 1)
			e.verify(1)
			e.pass(10 * time.Millisecond)
			e.calmly()
		}
	})
}

func TestRepairThatIsIneffectiveIsAnError(t *testing.T) {
	verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
		g.gives(func(_ context.Context, id uint64) (*object, bool, error) { return &object{ID: id, Value: 9}, true, nil })
		e.verify(1)
		e.pass(time.Second)
		s := e.told(1)
		require.Equal(e, reconciler.StatusKindError, s.Kind)
		require.Equal(e, "applied, but the target has 1 != 9", s.GetError())
		require.Equal(e, 1, e.loop.Figures().Unheld)
		g.take()
		e.pass(10 * time.Minute)
		require.LessOrEqual(e, len(g.changes()), 17, "it backs off")
		g.gives(nil)
		e.verify(1)
		e.pass(time.Second)
		e.done(1)
		e.calmly()
		require.Empty(e, g.changes())
	})
}

// A look right after a repair finds the target as it was: that is no failure.
func TestEffectThatComesLateIsNoFailure(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		g.showsLate(50 * time.Millisecond)
		e.verify(1)
		e.pass(30 * time.Millisecond)
		e.calmly()
		e.pass(time.Second)
		e.calmly()
		e.done(1)
		require.Equal(e, []string{"update(1)"}, g.changes())
		require.Zero(e, e.loop.Snapshot(e.Context()).States[0].Count)
	})
}

func TestOrphanThatComesBackIsContended(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		end := e.another(g, 8, 5, time.Second, func() {})
		e.pass(2 * time.Minute)
		require.Contains(e, e.loop.Explain(e.Context(), "8").Error, "contended: ")
		require.Equal(e, 1, e.loop.Figures().Unheld)
		g.take()
		e.pass(10 * time.Minute)
		require.LessOrEqual(e, len(g.changes()), 25)
		end()
		e.pass(time.Minute)
		e.calmly()
		require.Equal(e, map[uint64]int{1: 1}, g.holds())
		require.Empty(e, e.objects(inspect.ObjectQuery{Status: "Error"}).Objects)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.ResyncInterval = 5 * time.Second }))
}

// A fight is not given up, as a failure is: it ends by itself.
func TestContendedObjectIsNotGivenUp(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		end := e.another(g, 1, -1, 50*time.Millisecond, func() { go func() { _ = e.loop.Verify(context.Background(), &object{ID: 1}) }() })
		e.pass(10 * time.Minute)
		require.Contains(e, e.told(1).GetError(), "contended: ")
		end()
		e.pass(time.Minute)
		e.done(1)
		e.calmly()
		require.Zero(e, e.loop.Figures().BreakerOpenings, "the target works")
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries, s.BreakerFailures = 2, 1 }))
}

// A new version that was written during a pause is no repair.
func TestChangeDuringAPauseIsNoRepair(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		for range 6 {
			w.drift(1, 7)
			e.loop.Resync()
			e.pass(10 * time.Second)
		}
		require.Equal(e, 1, e.loop.Figures().Unheld)
		require.NoError(e, e.loop.PauseOnly("1"))
		e.pass(time.Second)
		e.put(3, 1)
		e.pass(time.Second)
		e.loop.Resume()
		e.pass(time.Second)
		require.Equal(e, 3, w.holds()[1])
		e.done(1)
		e.calmly()
	})
}

// A fight ends when the row loses its status.
func TestFightEndsWithTheStatusOfItsRow(t *testing.T) {
	verifying(t, map[uint64]int{1: 1, 2: 1}, func(e *env, g *getting) {
		if e.get(1).Status.Kind != reconciler.StatusKindDone {
			return
		}
		end := e.another(g, 1, 5, 50*time.Millisecond, func() { go func() { _ = e.loop.Verify(context.Background(), &object{ID: 1}) }() })
		e.pass(2 * time.Minute)
		require.Equal(e, 1, e.loop.Figures().Unheld)
		e.Insert(&object{ID: 1, Value: 1})
		e.pass(time.Second)
		end()
		e.pass(10 * time.Minute)
		e.calmly()
	})
}

// An orphan that comes back is wanted now, and carries Done.
func TestFightOfAnOrphanEndsWithItsRow(t *testing.T) {
	verifying(t, map[uint64]int{1: 1}, func(e *env, g *getting) {
		if e.get(1).Status.Kind != reconciler.StatusKindDone {
			return
		}
		end := e.another(g, 8, 5, time.Second, func() {})
		e.pass(2 * time.Minute)
		require.Equal(e, 1, e.loop.Figures().Unheld)
		end()
		g.drift(8, 5)
		e.Insert(&object{ID: 8, Value: 5, Status: reconciler.StatusDone()})
		e.pass(10 * time.Minute)
		e.calmly()
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.ResyncInterval = 5 * time.Second }))
}
