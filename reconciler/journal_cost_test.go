// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"testing"
	"time"

	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/ledger"
)

// That the journal keeps failures for longer costs those nothing that do not fail.
func TestJournalOfSuccessesAllocatesNothing(t *testing.T) {
	j := newJournal[int](128, 1024, func(int) index.Key { return nil })
	tasks, attempts := make([]execute.Task[int], 100), make([]ledger.Attempt[int], 100)
	require.Zero(t, testing.AllocsPerRun(1000, func() { j.add(Round{}, tasks, attempts) }))
}

// Of what it has dropped the journal holds nothing, and it does not grow with what was added.
func TestKeptFailuresDoNotGrow(t *testing.T) {
	f := failures[int]{most: 100}
	text := "no"
	for n := range uint64(10_000) {
		f.add(placed[int]{operationEntry[int]{text: &text}, n, 1, time.Time{}})
		require.LessOrEqual(t, cap(f.latest), 1000)
	}
	require.Len(t, f.latest, 100)
	require.Equal(t, 200, f.bytes)
	require.Len(t, f.from(9_990, 20_000), 10)
	require.Empty(t, f.from(0, 9_900))
}
