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

func TestQueueKeepsItsOrder(t *testing.T) {
	var q queue[int]
	require.Nil(t, q.first())
	q.push(change[int]{object: 1000})
	for i := 999; i >= 0; i-- {
		q.pushFront(change[int]{object: i})
	}
	for i := range 1001 {
		require.Equal(t, i, q.first().object)
		q.drop()
	}
	require.Nil(t, q.first())
	q.push(change[int]{object: 7})
	require.Equal(t, 7, q.first().object)
	require.Equal(t, change[int]{}, q.changes[:2][1], "a dropped change keeps nothing alive")
}
