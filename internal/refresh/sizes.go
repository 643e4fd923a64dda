// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/pace"
)

const (
	// largest bounds the rows of a batch if operations are single. It bounds how long a fresh
	// change waits behind refreshes.
	largest = 128
	// gather is the time over which the permits of a slow limiter are gathered into one batch.
	gather = 100 * time.Millisecond
)

// sizes decides the sizes of batches from the times that the last ones took.
type sizes struct {
	// batches: operations come in batches.
	batches bool
	size    int
	// shortest has the times of the latest calls that succeeded, as a ring. count is the number of
	// calls that succeeded. last is the time of the latest call, whatever its outcome.
	shortest [16]time.Duration
	count    int
	last     time.Duration
}

// calls summarises calls of operations that refreshed at least one object: the time of the longest
// call, 0 if nothing was refreshed; the time of all calls; whether some object was refreshed
// successfully.
type calls struct {
	longest, took time.Duration
	succeeded     bool
}

func newSizes(batches bool) sizes {
	if batches {
		// It is unknown what a call costs, and how much of that each object costs.
		return sizes{batches: true, size: 1}
	}
	return sizes{size: largest}
}

// next returns the largest number of rows of the next batch.
func (z *sizes) next(set Settings) int {
	most, permits := largest, gather
	if z.batches {
		most, permits = set.RoundSize, max(gather, 2*z.last)
	}
	if set.Limiter != nil {
		most = int(max(1, min(float64(set.Limiter.Limit())*permits.Seconds(), float64(most))))
	}
	return min(z.size, most)
}

// note records that a batch took some time, and the calls for it.
//
// Single operations get as many rows as fit into a turn, so that fresh changes wait no longer than
// that. For batches it depends on how much of a call's time each object costs, which the caller
// cannot know. So the size is doubled while a call takes no longer than a turn, or no longer than
// twice the shortest recent call, and is quartered otherwise. If each object costs the same time,
// quartering keeps showing how short a call can be; with halving, the size would grow slowly.
func (z *sizes) note(size int, took time.Duration, c calls) {
	if !z.batches {
		z.size = int(max(1, min(largest, float64(size)*float64(pace.Turn)/float64(max(1, took)))))
		return
	}
	if c.longest == 0 {
		return
	}
	z.last = c.longest
	if c.succeeded {
		z.shortest[z.count%len(z.shortest)] = c.longest
		z.count++
	}
	limit := pace.Turn
	if n := min(z.count, len(z.shortest)); n > 0 {
		limit = max(limit, 2*slices.Min(z.shortest[:n]))
	}
	if c.longest <= limit {
		z.size = max(z.size, 2*size)
	} else {
		z.size = max(1, size/4)
	}
}
