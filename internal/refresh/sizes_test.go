// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

func TestSingleOperationsTakeATurn(t *testing.T) {
	var z sizes
	set := Settings{RoundSize: 1000}
	require.Equal(t, largest, z.next(set), "it is not known what one takes")
	z.noteBatch(100, 50*time.Millisecond, Calls{})
	require.Equal(t, 10, z.next(set))
	z.noteBatch(10, time.Minute, Calls{})
	require.Equal(t, 1, z.next(set))
	z.noteBatch(1, 0, Calls{})
	require.Equal(t, largest, z.next(set))
}

func TestBatchesAreAsLargeAsTheLimiterAllows(t *testing.T) {
	for name, c := range map[string]struct {
		set  Settings
		z    sizes
		want int
	}{
		"no limit":               {Settings{RoundSize: 1000}, sizes{}, largest},
		"ten a gathering":        {Settings{Limiter: rate.NewLimiter(100, 1)}, sizes{}, 10},
		"few":                    {Settings{Limiter: rate.NewLimiter(1, 1)}, sizes{}, 1},
		"none":                   {Settings{Limiter: rate.NewLimiter(0, 1)}, sizes{}, 1},
		"infinite":               {Settings{Limiter: rate.NewLimiter(rate.Inf, 1)}, sizes{}, largest},
		"batches, at first":      {Settings{RoundSize: 1000}, sizes{batches: true}, 1},
		"batches":                {Settings{RoundSize: 1000}, sizes{batches: true, batch: 4000}, 1000},
		"batches, limited":       {Settings{RoundSize: 1000, Limiter: rate.NewLimiter(100, 1)}, sizes{batches: true, batch: 4000}, 10},
		"batches, of long calls": {Settings{RoundSize: 1000, Limiter: rate.NewLimiter(100, 1)}, sizes{batches: true, batch: 4000, last: time.Second}, 200},
	} {
		require.Equal(t, c.want, c.z.next(c.set), name)
	}
}

// Calls that cost the same whatever their size end at the largest batch; calls that cost by the
// object stay short.
func TestBatchesGrowWhileCallsTakeNoLonger(t *testing.T) {
	set := Settings{RoundSize: 1000}
	for name, c := range map[string]struct {
		call, object time.Duration
		most         int
	}{
		"nothing":       {0, 0, 1000},
		"by the call":   {time.Second, 0, 1000},
		"by the object": {0, 10 * time.Millisecond, 4},
		"by both":       {100 * time.Millisecond, 10 * time.Millisecond, 32},
	} {
		z := sizes{batches: true}
		most := 0
		for range 100 {
			size := z.next(set)
			most = max(most, size)
			var calls Calls
			calls.Add(c.call+time.Duration(size)*c.object, true)
			z.noteBatch(size, calls.Took, calls)
		}
		require.Equal(t, c.most, most, name)
	}
}

// What a call cost that failed does not tell what one costs.
func TestFailedCallsDoNotTellHowShortACallCanBe(t *testing.T) {
	z := sizes{batches: true, batch: 8}
	z.noteBatch(8, time.Second, Calls{Longest: time.Second, Took: time.Second})
	require.Equal(t, 2, z.batch)
	z.noteBatch(8, time.Second, Calls{})
	require.Equal(t, 2, z.batch, "there was no call")
	z.noteBatch(8, time.Second, Calls{Longest: time.Second, Took: time.Second, Succeeded: true})
	require.Equal(t, 16, z.batch)
}
