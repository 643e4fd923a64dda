// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// spacing is the pause between two timed inserts, long enough for the system to become idle.
const spacing = 5 * time.Millisecond

// probe inserts rows first, first+1, ... one by one, n of them, and returns for each the
// time from before the insert until its Done was seen through a watch channel.
// gap is the pause after each; 0 is back to back.
func probe(ctx context.Context, sys subject.System, first, n uint64, gap time.Duration) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, n)
	for id := first; id < first+n; id++ {
		begin := time.Now()
		if err := sys.Insert(id, 1); err != nil {
			return nil, err
		}
		if err := sys.Await(ctx, id, subject.Done); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(begin))
		if gap > 0 {
			time.Sleep(gap)
		}
	}
	return latencies, nil
}
