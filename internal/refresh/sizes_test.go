// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

func TestBatchOfSingleOperationsFitsATurn(t *testing.T) {
	var z sizes
	set := Settings{RoundSize: 1000}
	require.Equal(t, largest, z.next(set), "the time of an operation is unknown")
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
		"no limit":             {Settings{RoundSize: 1000}, sizes{}, largest},
		"ten permits gathered": {Settings{Limiter: rate.NewLimiter(100, 1)}, sizes{}, 10},
		"less than one permit": {Settings{Limiter: rate.NewLimiter(1, 1)}, sizes{}, 1},
		"no permits":           {Settings{Limiter: rate.NewLimiter(0, 1)}, sizes{}, 1},
		"infinite":             {Settings{Limiter: rate.NewLimiter(rate.Inf, 1)}, sizes{}, largest},
		"batches, at first":    {Settings{RoundSize: 1000}, sizes{batches: true}, 1},
		"batches":              {Settings{RoundSize: 1000}, sizes{batches: true, batch: 4000}, 1000},
		"batches, limited":     {Settings{RoundSize: 1000, Limiter: rate.NewLimiter(100, 1)}, sizes{batches: true, batch: 4000}, 10},
		"batches, long calls":  {Settings{RoundSize: 1000, Limiter: rate.NewLimiter(100, 1)}, sizes{batches: true, batch: 4000, last: time.Second}, 200},
	} {
		require.Equal(t, c.want, c.z.next(c.set), name)
	}
}

// If a call costs the same for any size, batches grow to the largest size. If each object costs
// time, calls stay short.
func TestBatchesGrowWhileCallsTakeNoLonger(t *testing.T) {
	set := Settings{RoundSize: 1000}
	for name, c := range map[string]struct {
		call, object time.Duration
		most         int
	}{
		"nothing costs time":     {0, 0, 1000},
		"each call costs time":   {time.Second, 0, 1000},
		"each object costs time": {0, 10 * time.Millisecond, 4},
		"both cost time":         {100 * time.Millisecond, 10 * time.Millisecond, 32},
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

// The time of a failed call does not show how short a call can be.
func TestFailedCallsDoNotCountAsShortest(t *testing.T) {
	z := sizes{batches: true, batch: 8}
	z.noteBatch(8, time.Second, Calls{Longest: time.Second, Took: time.Second})
	require.Equal(t, 2, z.batch)
	z.noteBatch(8, time.Second, Calls{})
	require.Equal(t, 2, z.batch, "there was no call")
	z.noteBatch(8, time.Second, Calls{Longest: time.Second, Took: time.Second, Succeeded: true})
	require.Equal(t, 16, z.batch)
}
