// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"math"
	"time"
)

// spin is work for the CPU: so many steps, each of which needs the one before. It is not so
// much time, since a worker that shares its core with others would then get its work done
// while it does not run. It never returns 0. The caller has to use the result: the compiler
// leaves out steps whose result is not used.
func spin(steps int) uint64 {
	x := uint64(math.MaxUint64)
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// spinning returns work that takes so many steps for each row.
func spinning(steps int) func(uint64) error {
	return func(uint64) error {
		if spin(steps) == 0 {
			return errDown
		}
		return nil
	}
}

// stepsFor returns how many steps take d on a core that is not shared: by the fastest of
// several tries.
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
