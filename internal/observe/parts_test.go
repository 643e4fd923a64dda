// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

import (
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
)

func TestSkippableIsBoundedAndCountsAll(t *testing.T) {
	var s skippable
	for i := range statedb.Revision(1000) {
		s.add(0, run{Range{i, i + 1}, 2, false})
		require.LessOrEqual(t, len(s.runs), maxRuns)
		require.Equal(t, 2*int(i+1), s.after(0))
	}
	require.Zero(t, s.after(1000))
	require.Equal(t, 2, s.after(999))
	s.add(1000, run{Range{1000, 1001}, 0, false})
	require.NotEmpty(t, s.runs, "adding nothing changes nothing")
	s.add(1000, run{Range{1000, 1003}, 3, false})
	require.Equal(t, []run{{Range{1000, 1003}, 3, false}}, s.runs)
}

// Whatever is joined, only a row that the caller wrote counts as written by it.
func TestOnlyOwnRowsCountAsWritten(t *testing.T) {
	var s skippable
	own := map[statedb.Revision]bool{}
	add := func(of run) {
		s.add(0, of)
		for r := of.After + 1; of.own && r <= of.UpTo; r++ {
			own[r] = true
		}
	}
	at := statedb.Revision(0)
	for i := range 1000 {
		switch i % 7 {
		case 2: // another writer
			at++
		case 4: // the catch-up cursor
			add(run{Range{at - 2, at + 1}, 2, false})
			at++
		}
		add(run{Range{at, at + 3}, 3, true})
		at += 3
	}
	found := 0
	for r := range at + 1 {
		if s.wrote(r) {
			found++
			require.True(t, own[r], "revision %d", r)
		}
	}
	require.Greater(t, found, 60, "the latest are known")
}
