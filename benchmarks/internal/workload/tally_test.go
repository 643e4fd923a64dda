// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// books is a system of rows that are all done and a target, with nothing that reconciles.
type books struct {
	subject.System
	rows   uint64
	target *subject.Target
}

func (b books) Count() map[subject.Kind]uint64 {
	return map[subject.Kind]uint64{subject.Done: b.rows}
}

func (b books) Targets() []*subject.Target { return []*subject.Target{b.target} }

func (b books) Workers() int { return 1 }

func complaint(b books, t *tally, calls uint32) error {
	var c checks
	c.worked(b, t, b.rows, calls)
	return c.err()
}

func TestTallyFindsAnExchangedRow(t *testing.T) {
	b := books{rows: 3, target: &subject.Target{}}
	tally := tallied(b.target, b.rows, nothing)
	for _, id := range []uint64{0, 1, 2} {
		require.NoError(t, b.target.Update(id))
	}
	assert.NoError(t, complaint(b, tally, 1))
	for _, id := range []uint64{0, 2, 2} {
		require.NoError(t, b.target.Update(id))
	}
	assert.EqualError(t, complaint(b, tally, 2), "check failed: Update calls for row 1: got 1, want 2",
		"the number of calls is right")
}

func TestTallyCountsConcurrentOperations(t *testing.T) {
	b := books{rows: 3, target: &subject.Target{}}
	begun, release := make(chan struct{}), make(chan struct{})
	tally := tallied(b.target, b.rows, func(id uint64) error {
		if id < 2 {
			begun <- struct{}{}
			<-release
		}
		return nil
	})
	ended := make(chan error)
	for id := range uint64(2) {
		go func() { ended <- b.target.Update(id) }()
		<-begun
	}
	close(release)
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	require.NoError(t, b.target.Update(2))
	assert.EqualValues(t, 2, tally.inFlight())
	assert.EqualError(t, complaint(b, tally, 1), "check failed: operations at a time: got 2, want at most 1")
}

func TestTallySpreadIsMostMinusFewestCalls(t *testing.T) {
	b := books{rows: 3, target: &subject.Target{}}
	tally := tallied(b.target, b.rows, nothing)
	assert.Zero(t, tally.spread())
	for _, id := range []uint64{0, 1, 2, 1, 1} {
		require.NoError(t, b.target.Update(id))
	}
	assert.EqualValues(t, 2, tally.spread())
	require.NoError(t, b.target.Update(0))
	assert.EqualValues(t, 2, tally.spread(), "one row had one call")
	require.NoError(t, b.target.Update(2))
	assert.EqualValues(t, 1, tally.spread())
}
