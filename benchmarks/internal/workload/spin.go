// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"math"
	"time"
)

// spin does CPU work: a number of steps, each of which needs the one before. It does not run for a time,
// since a worker that shares its core would then finish its work while it does not run. It never returns 0.
// The caller must use the result: the compiler removes steps whose result is not used.
func spin(steps int) uint64 {
	x := uint64(math.MaxUint64)
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// spinning returns a rule that spins for each row.
func spinning(steps int) func(uint64) error {
	return func(uint64) error {
		if spin(steps) == 0 {
			return errDown
		}
		return nil
	}
}

// stepsFor returns the number of steps that take d on a core that is not shared, by the fastest of several
// tries.
func stepsFor(d time.Duration) int {
	const (
		tries = 50
		steps = 100_000
	)
	fastest := time.Duration(math.MaxInt64)
	for range tries {
		begin := time.Now()
		if spin(steps) != 0 {
			fastest = min(fastest, time.Since(begin))
		}
	}
	return max(1, int(steps*float64(d)/float64(fastest)))
}
