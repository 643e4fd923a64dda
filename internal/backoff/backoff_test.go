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

func TestDelayDoublesUpToItsMaximum(t *testing.T) {
	for _, test := range []struct {
		min, max time.Duration
		failures int
		want     time.Duration
	}{
		{100 * ms, time.Second, math.MinInt, 100 * ms},
		{100 * ms, time.Second, 1, 100 * ms},
		{100 * ms, time.Second, 2, 200 * ms},
		{100 * ms, time.Second, 4, 800 * ms},
		{100 * ms, time.Second, 5, time.Second},
		{100 * ms, 400*ms - 1, 3, 400*ms - 1},
		{100 * ms, 400*ms + 1, 3, 400 * ms},
		{100 * ms, 400*ms + 1, 4, 400*ms + 1},
		{time.Second, time.Second, 2, time.Second},
		{time.Second, 100 * ms, 1, 100 * ms},
		{1, 3, 3, 3},
		// Nothing overflows, whatever the number of failures and the maximum.
		{1, longest, 63, 1 << 62},
		{1, longest, math.MaxInt, longest},
		{longest/2 + 1, longest, 2, longest},
		{longest, longest, 2, longest},
	} {
		e := Exponential{Min: test.min, Max: test.max}
		require.Equal(t, test.want, e.Delay(test.failures),
			"%d failures between %s and %s", test.failures, test.min, test.max)
	}
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
