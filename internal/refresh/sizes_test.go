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
	z := newSizes(false)
	set := Settings{RoundSize: 1000}
	require.Equal(t, largest, z.next(set), "the time of an operation is unknown")
	z.note(100, 50*time.Millisecond, calls{})
	require.Equal(t, 10, z.next(set))
	z.note(10, time.Minute, calls{})
	require.Equal(t, 1, z.next(set))
	z.note(1, 0, calls{})
	require.Equal(t, largest, z.next(set))
}

func TestBatchesAreAsLargeAsTheLimiterAllows(t *testing.T) {
	for name, c := range map[string]struct {
		set  Settings
		z    sizes
		want int
	}{
		"no limit":             {Settings{RoundSize: 1000}, newSizes(false), largest},
		"ten permits gathered": {Settings{Limiter: rate.NewLimiter(100, 1)}, newSizes(false), 10},
		"less than one permit": {Settings{Limiter: rate.NewLimiter(1, 1)}, newSizes(false), 1},
		"no permits":           {Settings{Limiter: rate.NewLimiter(0, 1)}, newSizes(false), 1},
		"infinite":             {Settings{Limiter: rate.NewLimiter(rate.Inf, 1)}, newSizes(false), largest},
		"batches, at first":    {Settings{RoundSize: 1000}, newSizes(true), 1},
		"batches":              {Settings{RoundSize: 1000}, sizes{batches: true, size: 4000}, 1000},
		"batches, limited":     {Settings{RoundSize: 1000, Limiter: rate.NewLimiter(100, 1)}, sizes{batches: true, size: 4000}, 10},
		"batches, long calls":  {Settings{RoundSize: 1000, Limiter: rate.NewLimiter(100, 1)}, sizes{batches: true, size: 4000, last: time.Second}, 200},
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
		z := newSizes(true)
		most := 0
		for range 100 {
			size := z.next(set)
			most = max(most, size)
			took := max(1, c.call+time.Duration(size)*c.object)
			z.note(size, took, calls{took, took, true})
		}
		require.Equal(t, c.most, most, name)
	}
}

// The time of a failed call does not show how short a call can be.
func TestFailedCallsDoNotCountAsShortest(t *testing.T) {
	z := sizes{batches: true, size: 8}
	z.note(8, time.Second, calls{time.Second, time.Second, false})
	require.Equal(t, 2, z.size)
	z.note(8, time.Second, calls{})
	require.Equal(t, 2, z.size, "there was no call")
	z.note(8, time.Second, calls{time.Second, time.Second, true})
	require.Equal(t, 16, z.size)
}
