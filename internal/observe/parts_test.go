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
		s.add(0, i+1, 2)
		require.LessOrEqual(t, len(s.runs), maxRuns)
		require.Equal(t, 2*int(i+1), s.after(0))
	}
	require.Zero(t, s.after(1000))
	require.Equal(t, 2, s.after(999))
	s.add(1000, 1001, 0)
	require.NotEmpty(t, s.runs, "adding nothing changes nothing")
	s.add(1000, 1001, 3)
	require.Equal(t, []run{{1001, 3}}, s.runs)
}
