// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Wait: "Rows with a zero status do not count." DESIGN, section 3: "If its row loses its status, the entry goes",
// also if its operation waited for a worker and was taken back for a pause.
func TestRowWithoutAStatusDoesNotCountAfterItsOperationWasTakenBack(t *testing.T) {
	inBubble(t, func(e *env) {
		// Short jobs, after which some are queued ahead of the workers.
		e.put(1, ids(10, 200)...)
		e.pass(time.Second)
		stuck := e.target.stick(1, 2)
		e.put(1, 1, 2, 3)
		e.pass(time.Millisecond)
		state := e.loop.Explain(e.Context(), "3").State
		e.write(func(wtxn statedb.WriteTxn) { _, _, _ = e.table.Insert(wtxn, &object{ID: 3}) })
		e.pass(time.Millisecond)
		e.loop.PauseObjects(only(3))
		e.pass(time.Millisecond)
		stuck.free(1)
		stuck.free(2)
		e.pass(time.Second)
		x := e.loop.Explain(e.Context(), "3")
		over := during(func() (inspect.Unapplied, error) { return e.loop.WaitAll(e.Context(), reconciler.Applied) })
		e.pass(time.Minute)
		ended := len(over) > 0
		e.loop.Resume()
		e.pass(time.Second)
		require.Equal(e, inspect.StateInFlight, state, "it waited for a worker")
		require.Equal(e, inspect.StateNoStatus, x.State, "%s", x)
		require.True(e, ended, "the wait goes on")
	}, nil, reconciler.WithSettings(twoWorkers), reconciler.WithoutPruning())
}
