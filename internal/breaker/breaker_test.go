// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package breaker

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// opened returns a breaker that three failures have opened at a time.
func opened(now time.Duration) *Breaker {
	b := new(Breaker)
	for i := range 3 {
		b.Fail(now, strconv.Itoa(i), "down", 3)
	}
	return b
}

// Only different keys count, and only those that fail with no success in between.
func TestFailuresOfDifferentKeysOpenTheBreaker(t *testing.T) {
	var b Breaker
	for range 10 {
		b.Fail(1, "a", "down", 3)
		b.Fail(1, "b", "down", 3)
	}
	require.Equal(t, State{}, b.State)
	require.False(t, b.Succeed())
	b.Fail(2, "c", "down", 3)
	b.Fail(2, "d", "down", 3)
	require.False(t, b.Open, "a success was in between")
	b.Fail(3, "e", "no route", 3)
	require.Equal(t, State{Openings: 1, Open: true, Since: 3, ProbeAt: 3 + MinPause, Failure: "no route"}, b.State)
}

// An operation that began before the breaker opened may end after, and is no probe.
func TestPauseDoublesWithEachFailureAfterAPause(t *testing.T) {
	b := opened(0)
	b.Fail(MinPause-1, "late", "other", 3)
	require.Equal(t, MinPause, b.ProbeAt)
	require.Equal(t, "other", b.Failure)
	pause := MinPause
	for range 6 {
		now := b.ProbeAt + 1
		b.Fail(now, "x", "down", 3)
		pause = min(2*pause, MaxPause)
		require.Equal(t, now+pause, b.ProbeAt)
	}
	require.Equal(t, time.Duration(0), b.Since)
}

func TestIgnoredOutcomeBeginsAPauseOfTheSameLength(t *testing.T) {
	b := opened(0)
	b.Ignore(MinPause - 1)
	require.Equal(t, MinPause, b.ProbeAt)
	for range 3 {
		now := b.ProbeAt
		b.Ignore(now)
		require.Equal(t, now+MinPause, b.ProbeAt)
	}
	new(Breaker).Ignore(0)
}

// After a success the breaker counts from zero, and its pauses are short.
func TestSuccessClosesTheBreaker(t *testing.T) {
	b := opened(0)
	b.Fail(b.ProbeAt, "x", "down", 3)
	require.True(t, b.Succeed())
	require.Equal(t, State{Openings: 1}, b.State)
	require.False(t, b.Succeed())
	b.Fail(time.Hour, "a", "down", 3)
	b.Fail(time.Hour, "b", "down", 3)
	require.False(t, b.Open)
	b.Fail(time.Hour, "c", "down", 3)
	require.Equal(t, State{Openings: 2, Open: true, Since: time.Hour, ProbeAt: time.Hour + MinPause, Failure: "down"}, b.State)
}
