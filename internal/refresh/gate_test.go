// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// A run whose settings are replaced while it waits is followed by another. A pass between the two,
// which ends the wait of the first, does not close the gate for the second.
func TestGateStaysOpenForTheNextRefresher(t *testing.T) {
	var g gate
	g.begin()
	g.wait(0, 5)
	g.begin()
	g.notePass(Pass{Seen: 5})
	through := g.wait(5, 9)
	g.notePass(Pass{Seen: 9})
	require.True(t, closed(through), "the wait must end with the batch")
	require.False(t, g.open.Load(), "the gate is closed while no refresher waits")
}

func TestBatchEndsWhenSeenAndNoRefreshIsInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		pass Pass
		want bool
	}{
		"not seen yet":                       {Pass{Seen: 8}, false},
		"seen":                               {Pass{Seen: 9}, true},
		"seen, one in flight":                {Pass{Seen: 9, Refreshing: 1}, false},
		"seen by the catch-up cursor":        {Pass{Seen: 2, CaughtUpFrom: 5, CaughtUpTo: 9}, true},
		"partly seen by the catch-up cursor": {Pass{Seen: 2, CaughtUpFrom: 5, CaughtUpTo: 8}, false},
		"the catch-up cursor began too late": {Pass{Seen: 2, CaughtUpFrom: 6, CaughtUpTo: 9}, false},
		"seen by both, two in flight":        {Pass{Seen: 9, CaughtUpFrom: 5, CaughtUpTo: 9, Refreshing: 2}, false},
	} {
		var g gate
		g.begin()
		through := g.wait(5, 9)
		g.notePass(c.pass)
		require.Equal(t, c.want, closed(through), name)
		require.Equal(t, !c.want, g.open.Load(), name)
	}
}

func TestBatchWithoutMarksEndsAtOnce(t *testing.T) {
	var g gate
	g.begin()
	require.True(t, closed(g.wait(7, 7)))
}

func TestGateSumsCallsWhileItIsOpen(t *testing.T) {
	var g gate
	g.noteCalls(Calls{Longest: 100, Took: 100})
	g.begin()
	g.noteCalls(Calls{})
	require.Equal(t, Calls{}, g.sum())
	var two Calls
	two.Add(7, false)
	two.Add(0, true)
	g.noteCalls(two)
	g.noteCalls(Calls{Longest: 3, Took: 3})
	require.Equal(t, Calls{Longest: 7, Took: 10, Succeeded: true}, g.sum())
	g.begin()
	require.Equal(t, Calls{}, g.sum())
}
