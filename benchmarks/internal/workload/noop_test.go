// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// straggling is a system in which the last row is done at once, and others are not.
type straggling struct {
	subject.System
	stragglers uint64
	inserted   uint64
	garbage    []byte
}

// wasted is the cost of a wait in bytes: memory can be counted exactly, time cannot.
const wasted = 10_000_000

func (s *straggling) Insert(_, n uint64) error {
	s.inserted += n
	return nil
}

func (s *straggling) Await(context.Context, uint64, subject.Kind) error { return nil }

func (s *straggling) AwaitAll(context.Context, subject.Kind) (uint64, error) {
	s.garbage = make([]byte, wasted)
	return s.stragglers, nil
}

func TestLoadEndsWithItsLastRow(t *testing.T) {
	s := &straggling{stragglers: 1}
	used, _, err := loadUntil(t.Context(), &Env{}, s, 2500, subject.Done)
	require.NoError(t, err)
	assert.EqualValues(t, 2500, s.inserted)
	assert.GreaterOrEqual(t, used.bytes, uint64(wasted))
}

func TestFinalWalkOverDoneRowsIsNotMeasured(t *testing.T) {
	used, _, err := loadUntil(t.Context(), &Env{}, &straggling{}, 2500, subject.Done)
	require.NoError(t, err)
	assert.Less(t, used.bytes, uint64(wasted))
}
