// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package backoff

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	ms      = time.Millisecond
	longest = time.Duration(math.MaxInt64)
)

func TestDelay(t *testing.T) {
	for _, test := range []struct {
		min, max time.Duration
		failures int
		want     time.Duration
	}{
		// Min is the wait after the first failure, not twice that.
		{100 * ms, time.Second, 1, 100 * ms},
		{100 * ms, time.Second, 2, 200 * ms},
		{100 * ms, time.Second, 3, 400 * ms},
		{100 * ms, time.Second, 4, 800 * ms},
		{100 * ms, time.Second, 5, time.Second},
		{100 * ms, time.Second, 6, time.Second},
		// A number below 1 counts as 1.
		{100 * ms, time.Second, 0, 100 * ms},
		{100 * ms, time.Second, -1, 100 * ms},
		{100 * ms, time.Second, math.MinInt, 100 * ms},
		// The maximum is reached exactly, or missed by one.
		{100 * ms, 400 * ms, 3, 400 * ms},
		{100 * ms, 400 * ms, 4, 400 * ms},
		{100 * ms, 400*ms - 1, 3, 400*ms - 1},
		{100 * ms, 400*ms + 1, 3, 400 * ms},
		{100 * ms, 400*ms + 1, 4, 400*ms + 1},
		// Min and Max leave no room for doubling.
		{time.Second, time.Second, 1, time.Second},
		{time.Second, time.Second, 2, time.Second},
		{1, 1, 1000, 1},
		{1, 2, 2, 2},
		{1, 3, 2, 2},
		{1, 3, 3, 3},
		// Nothing overflows, whatever the number of failures and the maximum.
		{100 * ms, time.Minute, math.MaxInt, time.Minute},
		{1, longest, 63, 1 << 62},
		{1, longest, 64, longest},
		{1, longest, 65, longest},
		{1, longest, math.MaxInt, longest},
		{longest / 2, longest, 2, longest - 1},
		{longest/2 + 1, longest, 2, longest},
		{longest, longest, 1, longest},
		{longest, longest, 2, longest},
	} {
		e := Exponential{Min: test.min, Max: test.max}
		require.Equal(t, test.want, e.Delay(test.failures),
			"%d failures between %s and %s", test.failures, test.min, test.max)
	}
}

func TestDelayNeverDecreasesAndStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Exponential{Min: time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "min"))}
		e.Max = time.Duration(rapid.Int64Range(int64(e.Min), math.MaxInt64).Draw(t, "max"))
		failures := rapid.IntRange(1, 100).Draw(t, "failures")
		d, next := e.Delay(failures), e.Delay(failures+1)
		require.GreaterOrEqual(t, d, e.Min)
		require.LessOrEqual(t, next, e.Max)
		if d < e.Max {
			require.Greater(t, next, d)
		}
		if d <= e.Max/2 {
			require.Equal(t, 2*d, next)
		} else {
			require.Equal(t, e.Max, next)
		}
	})
}

func TestJitterShortensByAtMostItsFraction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Exponential{
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
			Rand:   rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)),
		}
		d := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "wait"))
		for range 10 {
			got := e.Spread(d)
			require.LessOrEqual(t, got, d, "a wait is never lengthened")
			require.Positive(t, got)
			// A float64 cannot hold large waits exactly.
			least := float64(d) * (1 - e.Jitter) * (1 - 1e-15)
			require.GreaterOrEqual(t, float64(got), math.Floor(least))
		}
	})
}

// Waits with the same fraction are shortened in the same proportion, and no random number is drawn.
func TestFractionReplacesTheRandomNumber(t *testing.T) {
	e := Exponential{Min: time.Second, Max: time.Minute, Jitter: 0.5, Fraction: 0.5}
	for range 3 {
		require.Equal(t, 750*ms, e.Delay(1))
		require.Equal(t, 3*time.Second, e.Delay(3))
		require.Equal(t, 45*time.Second, e.Delay(math.MaxInt))
		require.Equal(t, 7500*ms, e.Spread(10*time.Second))
	}
	e.Jitter = 0
	require.Equal(t, time.Second, e.Delay(1))
}

func TestZeroJitterIsExactAndNeedsNoSource(t *testing.T) {
	e := Exponential{Min: time.Second, Max: time.Minute}
	for _, d := range []time.Duration{1, 3, time.Second, longest} {
		require.Equal(t, d, e.Spread(d))
	}
	require.Equal(t, 2*time.Second, e.Delay(2))
}
