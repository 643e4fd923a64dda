// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package backoff computes how long a failed operation waits before its retry.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Exponential is a wait that doubles with each failure: Min after the first, 2*Min after the second,
// and so on until Max. It is plain data. It is not safe for concurrent use because of the random
// source.
type Exponential struct {
	// Min is the wait after the first failure. It must be positive.
	Min time.Duration
	// Max bounds every wait. It must be at least Min.
	Max time.Duration
	// Jitter is the fraction, from 0 to 1, by which a wait may be shortened at random, so that
	// operations that failed together are not all retried together. A wait is never lengthened: Max
	// is a bound that users can rely on.
	Jitter float64
	// Fraction, from 0 to below 1, is the part of Jitter by which a wait is shortened. Operations
	// that should be retried together have the same Fraction. If it is 0, a random one is drawn for
	// each wait.
	Fraction float64
	// Rand is the source of the jitter. It may be nil if Jitter is 0 or Fraction is not 0.
	Rand *rand.Rand
}

// Delay returns the wait after a number of failures in a row. Numbers below 1 count as 1.
func (e Exponential) Delay(failures int) time.Duration {
	d := e.Min
	// It compares with half of Max, so that the doubling cannot overflow.
	for i := 1; i < failures; i++ {
		if d > e.Max/2 {
			d = e.Max
			break
		}
		d *= 2
	}
	return e.Spread(min(d, e.Max))
}

// Spread returns d, shortened by the jitter.
func (e Exponential) Spread(d time.Duration) time.Duration {
	if e.Jitter <= 0 || d <= 0 {
		return d
	}
	fraction := e.Fraction
	if fraction == 0 {
		fraction = e.Rand.Float64()
	}
	return d - time.Duration(float64(d)*e.Jitter*fraction)
}
