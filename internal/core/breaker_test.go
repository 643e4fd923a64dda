// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// breakerConfig returns breakers that open after two failures, and probe every second with one key.
func breakerConfig(byClass bool) *BreakerConfig {
	return &BreakerConfig{
		Failures: 2, Probes: 1, MinInterval: time.Second, MaxInterval: time.Second, ByClass: byClass,
	}
}

func withBreaker(size int, b *BreakerConfig) *Core[row] {
	cfg := smallConfig(size)
	cfg.Breaker = b
	return New(cfg)
}

func failedWith(it *Operation[row], class string) Outcome[row] {
	out := failed(it, class+" is down")
	out.Class = class
	return out
}

// failAll runs a round in which changes of the given keys fail with a class. Their revisions rise
// from the given one.
func failAll(t *testing.T, c *Core[row], now time.Duration, from uint64, class string, keys ...string) {
	t.Helper()
	begin(c, now, from, keys...)
	items := c.Plan()
	require.Equal(t, keys, planned(items))
	for i := range items {
		c.Settle(now, &items[i], failedWith(&items[i], class))
	}
	check(t, c)
}

// settleAll runs a round in which all items have the same outcome, and returns the planned keys.
func settleAll(t *testing.T, c *Core[row], now time.Duration, outcome func(it *Operation[row]) Outcome[row]) []string {
	t.Helper()
	size, _ := c.Allowance(now)
	c.Begin(now, min(size, c.roundSize), false)
	items := c.Plan()
	keys := planned(items)
	for i := range items {
		c.Settle(now, &items[i], outcome(&items[i]))
	}
	check(t, c)
	return keys
}

// NextDue includes the time of the next probes: the loop may have no other reason to wake up.
func TestNextDueIncludesProbesByClass(t *testing.T) {
	c := withBreaker(8, breakerConfig(true))
	failAll(t, c, 0, 1, "x", "a", "b")
	// a waits for its backoff first, and is held when that is over.
	require.Equal(t, 1, c.Count(Tripped))
	due, ok := c.NextDue()
	require.True(t, ok)
	require.Equal(t, 100*time.Millisecond, due)
	require.Empty(t, settleAll(t, c, 100*time.Millisecond, nil))
	require.Equal(t, 2, c.Count(Tripped))

	due, ok = c.NextDue()
	require.True(t, ok)
	require.Equal(t, time.Second, due)
	require.Equal(t, []string{"b"}, settleAll(t, c, time.Second, done))
	require.Empty(t, c.OpenBreakers(100))
	require.Equal(t, []string{"a"}, settleAll(t, c, time.Second, done))
	require.False(t, c.Tracks())
}

// The same calls give the same plan, although breakers are kept in a map.
func TestProbesOfManyClassesHaveAFixedOrder(t *testing.T) {
	play := func() (plan []string) {
		c := withBreaker(4, &BreakerConfig{
			Failures: 1, Probes: 1, MinInterval: time.Second, MaxInterval: time.Second, ByClass: true,
		})
		for i := range 40 {
			failAll(t, c, 0, uint64(i+1), fmt.Sprintf("class%d", i), fmt.Sprintf("key%d", i))
		}
		for range 10 {
			plan = append(plan, settleAll(t, c, time.Second, done)...)
		}
		require.Len(t, plan, 40)
		return plan
	}
	first := play()
	for range 5 {
		require.Equal(t, first, play())
	}
}

// A breaker whose class no key failed with last has no key to probe with or to hold. It does not
// stay open for ever, and costs nothing.
func TestClassWithoutFailingKeysIsForgotten(t *testing.T) {
	for name, outcome := range map[string]func(it *Operation[row]) Outcome[row]{
		"other class": func(it *Operation[row]) Outcome[row] { return failedWith(it, "y"+it.Obj.key) },
		"no class":    func(it *Operation[row]) Outcome[row] { return failedWith(it, "") },
		"terminal": func(it *Operation[row]) Outcome[row] {
			out := failed(it, "no")
			out.Kind = FailedForGood
			return out
		},
		"void": func(it *Operation[row]) Outcome[row] { return Outcome[row]{Kind: Void} },
	} {
		t.Run(name, func(t *testing.T) {
			c := withBreaker(8, breakerConfig(true))
			failAll(t, c, 0, 1, "x", "a", "b")
			require.Len(t, c.OpenBreakers(100), 1)
			version := c.FailureVersion()
			now := time.Duration(0)
			for range 4 {
				now += time.Second
				settleAll(t, c, now, outcome)
			}
			require.Empty(t, c.OpenBreakers(100))
			require.NotEqual(t, version, c.FailureVersion())
			require.NotContains(t, c.breakers, "x")
		})
	}
}

// A class may be any text of an error, so unused classes must be forgotten.
func TestUnusedClassesAreForgotten(t *testing.T) {
	c := withBreaker(8, breakerConfig(true))
	now := time.Duration(0)
	for i := range 100 {
		begin(c, now, uint64(i+1), "a")
		items := c.Plan()
		c.Settle(now, &items[0], failedWith(&items[0], fmt.Sprintf("class%d", i)))
		check(t, c)
		require.Len(t, c.breakers, 1)
		now += time.Minute
	}
	settleAll(t, c, now, done)
	require.Empty(t, c.breakers)
}

// A success of a key counts for the class that it failed with, even if the breaker of the class was
// removed and made again meanwhile.
func TestSuccessCountsForTheClassOfAnOldFailure(t *testing.T) {
	c := withBreaker(8, breakerConfig(true))
	out := func(it *Operation[row]) Outcome[row] {
		out := failedWith(it, "x")
		if it.Obj.key == "early" {
			out.Delay = 10 * time.Second
		}
		return out
	}
	begin(c, 0, 1, "early", "a")
	items := c.Plan()
	for i := range items {
		c.Settle(0, &items[i], out(&items[i]))
	}
	require.Equal(t, []string{"a"}, settleAll(t, c, time.Second, done))
	require.Empty(t, c.OpenBreakers(100))

	failAll(t, c, 9*time.Second, 10, "x", "b")
	require.Equal(t, []string{"b"}, settleAll(t, c, 9500*time.Millisecond, func(it *Operation[row]) Outcome[row] {
		out := failedWith(it, "x")
		out.Delay = time.Hour
		return out
	}))
	require.Equal(t, []string{"early"}, settleAll(t, c, 10*time.Second, done))
	failAll(t, c, 11*time.Second, 11, "x", "c")
	require.Empty(t, c.OpenBreakers(100), "there was a success between b and c")
}

// A probe that ends after the breaker has closed and opened again does not count as a probe of the
// later opening.
func TestProbeOfAnEarlierOpeningIsNotCounted(t *testing.T) {
	for _, byClass := range []bool{false, true} {
		t.Run(fmt.Sprintf("by class %t", byClass), func(t *testing.T) {
			b := breakerConfig(byClass)
			b.Failures, b.Probes = 1, 2
			c := withBreaker(8, b)
			run := func(now time.Duration) map[string]*Operation[row] {
				t.Helper()
				size, _ := c.Allowance(now)
				return launchRound(t, c, now, min(size, 8))
			}
			fail := func(now time.Duration, it *Operation[row]) {
				t.Helper()
				c.Settle(now, it, failedWith(it, "x"))
				check(t, c)
			}
			failAll(t, c, 0, 1, "x", "a", "b")
			first := run(time.Second)
			require.ElementsMatch(t, []string{"a", "b"}, keysOf(first))
			c.Settle(time.Second, first["a"], done(first["a"]))
			require.Empty(t, c.OpenBreakers(100))

			failAll(t, c, 1100*time.Millisecond, 3, "x", "c", "d")
			second := run(2100 * time.Millisecond)
			require.ElementsMatch(t, []string{"c", "d"}, keysOf(second))
			fail(2200*time.Millisecond, first["b"])
			fail(2200*time.Millisecond, second["c"])
			require.Empty(t, run(10*time.Second), "d is still in flight")
			fail(10*time.Second, second["d"])
			require.Len(t, run(20*time.Second), 2)
		})
	}
}

// Paused keys do not probe, and the other keys behind the breaker do not wait for them.
func TestPausedKeysAreNoProbes(t *testing.T) {
	c := withBreaker(8, breakerConfig(true))
	keys := []string{"a", "b", "c", "d"}
	failAll(t, c, 0, 1, "x", keys...)
	require.Empty(t, settleAll(t, c, 500*time.Millisecond, nil))
	require.Equal(t, len(keys), c.Count(Tripped))
	c.SetPaused(500*time.Millisecond, func(r row) bool { return r.key != "d" })
	now := 500 * time.Millisecond
	for range len(keys) {
		due, ok := c.NextDue()
		require.True(t, ok)
		now = max(now, due)
		if plan := settleAll(t, c, now, done); len(plan) > 0 {
			require.Equal(t, []string{"d"}, plan)
			break
		}
	}
	require.Equal(t, time.Second, now, "the first probe is not delayed")
	require.Empty(t, c.OpenBreakers(100))
	c.SetPaused(now, nil)
	require.ElementsMatch(t, []string{"a", "b", "c"}, settleAll(t, c, now, done))
}

// A delay that an outcome asked for is no backoff, and is not cut short when the breaker closes.
// But a backoff that replaced such a delay is.
func TestEveryBackoffEndsWhenTheBreakerCloses(t *testing.T) {
	c := withBreaker(8, breakerConfig(false))
	begin(c, 0, 1, "asked", "was asked", "failed")
	items := c.Plan()
	for i, delay := range []time.Duration{time.Hour, time.Millisecond, 0} {
		out := failed(&items[i], "no")
		out.Delay = delay
		c.Settle(0, &items[i], out)
	}
	require.Len(t, c.OpenBreakers(100), 1)
	// An unobserved change of "was asked" turns out to ask for nothing.
	c.Begin(time.Millisecond, 8, false)
	items = c.Plan()
	require.Equal(t, []string{"was asked"}, planned(items))
	c.Settle(time.Millisecond, &items[0], Outcome[row]{Kind: Superseded})
	c.Begin(time.Millisecond, 0, false)
	c.ObserveSettled(row{key: "was asked"}, 4, RowDone)
	check(t, c)
	due, _ := c.NextDue()
	require.Equal(t, time.Millisecond, due, "nothing was run, so others may probe")

	begin(c, time.Millisecond, 5, "fresh")
	items = c.Plan()
	require.Equal(t, "fresh", items[0].Obj.key)
	c.Settle(time.Millisecond, &items[0], done(&items[0]))
	for i := len(items) - 1; i > 0; i-- {
		c.Recall(c.round.now, &items[i])
	}
	require.Empty(t, c.OpenBreakers(100))
	require.ElementsMatch(t, []string{"was asked", "failed"}, settleAll(t, c, time.Millisecond, done))
	due, _ = c.NextDue()
	require.Equal(t, time.Hour, due)
}

// A probe that has not run when the breaker closes and opens again is held like the others.
func TestProbeThatDidNotRunIsHeldAgain(t *testing.T) {
	b := breakerConfig(true)
	b.Probes = 2
	c := withBreaker(8, b)
	failAll(t, c, 0, 1, "x", "a", "b", "c")
	require.Empty(t, settleAll(t, c, 500*time.Millisecond, nil))
	require.Equal(t, 3, c.Count(Tripped))
	// There is room for only one of the two probes.
	c.Begin(time.Second, 1, false)
	items := c.Plan()
	require.Len(t, items, 1)
	c.Settle(time.Second, &items[0], done(&items[0]))
	require.Empty(t, c.OpenBreakers(100))

	// The other two keys are still due when two new failures open the breaker again.
	c.Begin(time.Second, 8, false)
	c.see(row{key: "d"}, 4, false, Backlog)
	c.see(row{key: "e"}, 5, false, Backlog)
	items = c.Plan()
	require.Len(t, items, 4)
	for i := len(items) - 1; i >= 0; i-- {
		if it := &items[i]; it.Again {
			c.Recall(c.round.now, it)
		}
	}
	for i := range items {
		if it := &items[i]; !it.Again {
			c.Settle(time.Second, it, failedWith(it, "x"))
		}
	}
	check(t, c)
	require.Len(t, c.OpenBreakers(100), 1)
	require.Empty(t, settleAll(t, c, time.Second, done))
	require.Equal(t, 3, c.Count(Tripped))
}
