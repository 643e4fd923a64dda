// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package backoff computes how long a failed operation waits.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Exponential doubles the wait with every failure: Min after the first, 2*Min
// after the second, and so on until Max. Plain data; not safe for concurrent use
// because of the random source.
type Exponential struct {
	// Min is the wait after the first failure. Must be positive.
	Min time.Duration
	// Max bounds every wait. Must not be below Min.
	Max time.Duration
	// Jitter is the fraction, 0 to 1, by which a wait may be shortened at
	// random, so that what failed together does not come back together. A wait
	// is never lengthened: Max stays a bound that users can plan with.
	Jitter float64
	// Fraction, below 1, is how much of the jitter a wait is shortened by, for those
	// that are to come back together; 0 means that it is drawn for each wait.
	Fraction float64
	// Rand is the source of the jitter. May be nil if Jitter is 0 or Fraction is not.
	Rand *rand.Rand
}

// Delay returns the wait after the given number of failures in a row, counted
// from 1; anything below 1 counts as 1.
func (e Exponential) Delay(failures int) time.Duration {
	d := e.Min
	// The comparison is made on the half of Max so that the doubling below can
	// never overflow.
	for i := 1; i < failures; i++ {
		if d > e.Max/2 {
			d = e.Max
			break
		}
		d *= 2
	}
	return e.Spread(min(d, e.Max))
}

// Spread shortens d by at most the Jitter fraction.
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
