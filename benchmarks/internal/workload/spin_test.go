// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSpinTakesItsCalibratedTime(t *testing.T) {
	const want = 200 * time.Microsecond
	steps := stepsFor(want)
	// The fastest of many tries, as other processes use the cores too.
	fastest := time.Hour
	for range 200 {
		begin := time.Now()
		assert.NotZero(t, spin(steps))
		fastest = min(fastest, time.Since(begin))
	}
	assert.InDelta(t, want, fastest, float64(want)/2)
	assert.Equal(t, 1, stepsFor(0), "there is always some work")
}
