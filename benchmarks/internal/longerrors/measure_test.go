// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The figures mean nothing at this size, but the checks of the run still hold.
func TestMeasureEndsAndChecksItself(t *testing.T) {
	for _, text := range []int{100, 1 << 20} {
		r, err := measure(t.Context(), config{objects: 20, text: text, window: time.Millisecond})
		require.NoError(t, err)
		assert.GreaterOrEqual(t, r.attempts, uint64(20))
		assert.Positive(t, r.live)
		assert.Len(t, r.answers, 7*3+9*2)
		for _, a := range r.answers {
			assert.Positive(t, a.bytes, a.question)
		}
		assert.Contains(t, r.String(), "20 objects")
	}
}

func TestBrokenPromisesAreErrors(t *testing.T) {
	within := &result{rows: 10, live: 10 + maxBeyondRows, answers: []asked{{"q", []time.Duration{maxAnswer}, 1}}}
	require.NoError(t, within.bounds())
	beyond := &result{rows: 10, live: 11<<20 + maxBeyondRows, answers: []asked{{"q", []time.Duration{maxAnswer + 1}, 1}}}
	assert.ErrorContains(t, beyond.bounds(), "MB of live heap beyond the rows")
	assert.ErrorContains(t, beyond.bounds(), "q: 300.000001ms")
}
