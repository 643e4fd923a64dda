// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patient returns a core with an open breaker that admits two probes every second,
// and the keys a to d, which have failed and wait for ten seconds.
func patient(t *testing.T) *Core[row] {
	t.Helper()
	cfg := smallConfig(8)
	cfg.MinBackoff, cfg.MaxBackoff = 10*time.Second, time.Minute
	cfg.Breaker = breakerConfig()
	cfg.Breaker.Probes = 2
	c := New(cfg)
	failAll(t, c, 0, 1, "a", "b", "c", "d")
	require.True(t, c.Breaker.State().Open)
	return c
}

// If all keys wait for longer than the next probes, some of them probe early, but no more than
// needed.
func TestLongBackoffsProbeIfNothingElseCan(t *testing.T) {
	c := patient(t)
	due, ok := c.NextDue()
	require.True(t, ok)
	require.Equal(t, time.Second, due)
	require.Equal(t, []string{"a", "b"}, settleAll(t, c, time.Second, isDown))
	due, _ = c.NextDue()
	require.Equal(t, 2*time.Second, due)
	require.Equal(t, []string{"c", "d"}, settleAll(t, c, 2*time.Second, isDown))
	require.Equal(t, 4, c.Index.figures.States[Retry])
}

// Ready and due keys probe first, so that no backoff is cut short.
func TestNoBackoffIsCutShortWhileOthersProbe(t *testing.T) {
	c := patient(t)
	c.Begin(500*time.Millisecond, 1, false)
	c.see(row{key: "e"}, 5, false, Backlog)
	c.see(row{key: "f"}, 6, false, Backlog)
	items := c.Plan()
	require.Equal(t, []string{"e"}, planned(items))
	c.Recall(c.round.now, &items[0])
	require.Equal(t, 500*time.Millisecond, c.Breaker.State().ProbeAt, "nothing was run")
	require.Equal(t, []string{"e", "f"}, settleAll(t, c, 2*time.Second, isDown))
	for _, key := range []string{"a", "b", "c", "d"} {
		require.Equal(t, 10*time.Second, c.keys.entries[key].dueAt, key)
	}
}

// A round without room for operations begins no probes: a key whose backoff it cut short might have
// to wait for others, out of its turn.
func TestRoundWithoutRoomCutsNoBackoffShort(t *testing.T) {
	c := patient(t)
	c.Begin(time.Second, 0, false)
	require.Empty(t, c.Plan())
	for key, e := range c.keys.entries {
		require.Equal(t, 10*time.Second, e.dueAt, key)
	}
}

// Paused keys do not probe: others take their place.
func TestPausedKeysDoNotProbe(t *testing.T) {
	c := patient(t)
	c.SetPaused(0, func(r row) bool { return r.key == "a" || r.key == "c" })
	require.Equal(t, []string{"b", "d"}, settleAll(t, c, time.Second, isDown))
	require.Equal(t, 2, c.Index.figures.States[Paused])
}

// A key that is given up because it failed too often counts as a failure, so that such keys open the breaker too.
func TestKeysThatAreGivenUpCountForTheBreaker(t *testing.T) {
	c := withBreaker(8, breakerConfig())
	begin(c, 0, 1, "a", "b")
	items := c.Plan()
	for i := range items {
		out := isDown(&items[i])
		out.Kind, out.GivenUp = FailedForGood, true
		c.Settle(0, &items[i], out)
	}
	check(t, c)
	require.True(t, c.Breaker.State().Open)
	require.Equal(t, 2, c.Index.figures.States[Terminal])
}

// An operation that is not run is no probe. Others probe in its place at once.
func TestProbesThatAreNotRunAreReplacedAtOnce(t *testing.T) {
	superseded := func(it *Operation[row]) Outcome[row] { return Outcome[row]{Kind: Superseded} }
	c := patient(t)
	c.Begin(500*time.Millisecond, 1, false)
	for i, key := range []string{"e", "f", "g"} {
		c.see(row{key: key}, uint64(5+i), false, Backlog)
	}
	items := c.Plan()
	require.Equal(t, []string{"e"}, planned(items))
	c.Settle(500*time.Millisecond, &items[0], superseded(&items[0]))
	n, _ := c.Breaker.Allowance(500 * time.Millisecond)
	require.Positive(t, n)
	require.Equal(t, []string{"f", "g"}, settleAll(t, c, 500*time.Millisecond, isDown))
	n, at := c.Breaker.Allowance(500 * time.Millisecond)
	require.Zero(t, n)
	require.Greater(t, at, 500*time.Millisecond)
}

// A pass begins and plans nothing while one of two probes is in flight. The failure of the other
// still counts when the last one ends without a result.
func TestPassDuringProbesKeepsTheirFailures(t *testing.T) {
	b := breakerConfig()
	b.Probes, b.MaxInterval = 2, 4*time.Second
	c := withBreaker(8, b)
	failAll(t, c, 0, 1, "a", "b")

	c.Begin(time.Second, 2, false)
	items := c.Plan()
	require.Len(t, items, 2)
	slow := items[1]
	c.Settle(time.Second, &items[0], isDown(&items[0]))

	size, _ := c.Breaker.Allowance(2 * time.Second)
	require.Zero(t, size)
	c.Begin(2*time.Second, size, false)
	require.Empty(t, c.Plan())

	c.Settle(3*time.Second, &slow, Outcome[row]{Kind: Superseded})
	_, at := c.Breaker.Allowance(3 * time.Second)
	require.Equal(t, 5*time.Second, at, "twice the interval after the last probe ended")
}
