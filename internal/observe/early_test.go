// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/status"
)

// Main's snapshot has the deletion of an object that was inserted again after it. The catch-up cursor
// has handed over the insertion, and no row shows that it was applied.
func TestDeletionThatWasOvertakenIsNotHandedOver(t *testing.T) {
	e := newEnvBeside(t, 4)
	e.put(status.Pending, 100)
	e.rounds(0)
	e.put(status.Pending, ids(1, 40)...)
	e.delete(100)
	e.roundsUntilCatchingUp()
	e.put(status.Pending, 100)
	planned := e.rounds(slow)
	require.Contains(t, planned, 100)
	require.NotContains(t, planned, -100)
}

// Main's snapshot has an earlier version of an object. The catch-up cursor has handed over the one
// that replaced it.
func TestVersionThatWasOvertakenIsNotHandedOver(t *testing.T) {
	e := newEnvBeside(t, 4)
	e.put(status.Pending, ids(1, 40)...)
	e.roundsUntilCatchingUp()
	e.put(status.Pending, 40)
	times := 0
	for _, id := range e.rounds(slow) {
		if id == 40 {
			times++
		}
	}
	require.Equal(t, 1, times)
}

// A version waits for room, and a later one of its object is applied meanwhile.
func TestVersionThatWaitedIsNotHandedOverAfterALaterOne(t *testing.T) {
	e := newEnvBeside(t, 2)
	e.put(status.Pending, ids(1, 4)...)
	e.begin()
	e.put(status.Pending, 3)
	e.NoteApplied(&row{id: 3}, e.revision())
	e.end(2, 0)
	require.NotContains(t, e.rounds(0), 3)
}

// A retry has applied a version that neither cursor has read.
func TestVersionThatWasAppliedIsHandedOverByNoCursor(t *testing.T) {
	e := newEnvBeside(t, 4)
	e.put(status.Pending, ids(1, 40)...)
	e.roundsUntilCatchingUp()
	e.put(status.Pending, 100)
	e.NoteApplied(&row{id: 100}, e.table.Revision(e.db.ReadTxn()))
	require.NotContains(t, e.rounds(slow), 100)
	e.put(status.Pending, 100)
	require.Contains(t, e.rounds(slow), 100, "a later version")
}
