// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/pace"
)

const (
	// largest is the largest number of objects that are marked in one write transaction for
	// single operations. It bounds how long a fresh change waits behind a refresh.
	largest = 128
	// gather is for how long a slow limiter's permits are gathered into one batch.
	gather = 100 * time.Millisecond
)

// sizes are what the sizes of batches are decided from: what the last ones took.
type sizes struct {
	// batches: operations come in batches.
	batches bool
	// single is the size for single operations, batch the one for batches; 0 at first.
	single, batch int
	// calls are the latest that succeeded, of which there were so many; last is the one
	// before, whatever came of it.
	calls [16]time.Duration
	count int
	last  time.Duration
}

// next returns how many objects to mark at most.
func (z *sizes) next(set Settings) int {
	most, size, permits := largest, z.single, gather
	if z.batches {
		// It is not known yet what a call costs, nor how much of that each object.
		most, size, permits = set.RoundSize, max(1, z.batch), max(permits, 2*z.last)
	}
	if set.Limiter != nil {
		most = int(max(1, min(float64(set.Limiter.Limit())*permits.Seconds(), float64(most))))
	}
	if size == 0 {
		return most
	}
	return min(size, most)
}

// ran notes that a number of objects was through after some time, and the calls for them.
//
// Single operations take the time that a turn does: fresh changes are not to wait for more. For
// batches it depends on how much of a call's time each object costs, which the caller cannot
// know: the size is doubled while a call takes no longer than a turn, or than twice the shortest
// of late, and quartered otherwise. Where each object costs the same, the quarter keeps showing
// how short a call can be; with a half the size would creep up.
func (z *sizes) ran(size int, took time.Duration, calls Calls) {
	z.single = int(max(1, min(largest, float64(size)*float64(pace.Turn)/float64(max(1, took)))))
	longest := calls.Longest
	if longest == 0 {
		return
	}
	z.last = longest
	if calls.Succeeded {
		z.calls[z.count%len(z.calls)] = longest
		z.count++
	}
	limit := pace.Turn
	if n := min(z.count, len(z.calls)); n > 0 {
		limit = max(limit, 2*slices.Min(z.calls[:n]))
	}
	if longest <= limit {
		z.batch = max(z.batch, 2*size)
	} else {
		z.batch = max(1, size/4)
	}
}
