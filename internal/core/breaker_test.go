// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// breakerConfig returns a breaker that opens after two failures, and probes every second with one key.
func breakerConfig() *BreakerConfig {
	return &BreakerConfig{Failures: 2, Probes: 1, MinInterval: time.Second, MaxInterval: time.Second}
}

func withBreaker(size int, b *BreakerConfig) *Core[row] {
	cfg := smallConfig(size)
	cfg.Breaker = b
	return New(cfg)
}

func isDown(it *Operation[row]) Outcome[row] { return failed(it, "is down") }

// failAll runs a round in which changes of the given keys fail. Their revisions rise from the given one.
func failAll(t *testing.T, c *Core[row], now time.Duration, from uint64, keys ...string) {
	t.Helper()
	begin(c, now, from, keys...)
	items := c.Plan()
	require.Equal(t, keys, planned(items))
	for i := range items {
		c.Settle(now, &items[i], isDown(&items[i]))
	}
	check(t, c)
}

// settleAll runs a round in which all items have the same outcome, and returns the planned keys.
func settleAll(t *testing.T, c *Core[row], now time.Duration, outcome func(it *Operation[row]) Outcome[row]) []string {
	t.Helper()
	size, _ := c.Breaker.Allowance(now)
	c.Begin(now, min(size, c.roundSize), false)
	items := c.Plan()
	keys := planned(items)
	for i := range items {
		c.Settle(now, &items[i], outcome(&items[i]))
	}
	check(t, c)
	return keys
}

// A probe that ends after the breaker has closed and opened again does not count as a probe of the
// later opening.
func TestProbeOfAnEarlierOpeningIsNotCounted(t *testing.T) {
	b := breakerConfig()
	b.Failures, b.Probes = 1, 2
	c := withBreaker(8, b)
	run := func(now time.Duration) map[string]*Operation[row] {
		t.Helper()
		size, _ := c.Breaker.Allowance(now)
		return launchRound(t, c, now, min(size, 8))
	}
	fail := func(now time.Duration, it *Operation[row]) {
		t.Helper()
		c.Settle(now, it, isDown(it))
		check(t, c)
	}
	failAll(t, c, 0, 1, "a", "b")
	first := run(time.Second)
	require.ElementsMatch(t, []string{"a", "b"}, keysOf(first))
	c.Settle(time.Second, first["a"], done(first["a"]))
	require.False(t, c.Breaker.State().Open)

	failAll(t, c, 1100*time.Millisecond, 3, "c", "d")
	second := run(2100 * time.Millisecond)
	require.ElementsMatch(t, []string{"c", "d"}, keysOf(second))
	fail(2200*time.Millisecond, first["b"])
	fail(2200*time.Millisecond, second["c"])
	require.Empty(t, run(10*time.Second), "d is still in flight")
	fail(10*time.Second, second["d"])
	require.Len(t, run(20*time.Second), 2)
}

// A delay that an outcome asked for is no backoff, and is not cut short when the breaker closes.
// But a backoff that replaced such a delay is.
func TestEveryBackoffEndsWhenTheBreakerCloses(t *testing.T) {
	c := withBreaker(8, breakerConfig())
	begin(c, 0, 1, "asked", "was asked", "failed")
	items := c.Plan()
	for i, delay := range []time.Duration{time.Hour, time.Millisecond, 0} {
		out := failed(&items[i], "no")
		out.Delay = delay
		c.Settle(0, &items[i], out)
	}
	require.True(t, c.Breaker.State().Open)
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
	require.False(t, c.Breaker.State().Open)
	require.ElementsMatch(t, []string{"was asked", "failed"}, settleAll(t, c, time.Millisecond, done))
	due, _ = c.NextDue()
	require.Equal(t, time.Hour, due)
}
