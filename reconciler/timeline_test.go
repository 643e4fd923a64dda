// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The time line has a sample for every second, even for seconds without events.
func TestTimelineHasEverySecond(t *testing.T) {
	inBubble(t, func(e *env) {
		began := time.Now()
		e.pass(2 * time.Second)
		e.target.failing("no")
		e.put(1, 1, 2)
		e.pass(3 * time.Second)
		e.target.failing("")
		e.pass(5 * time.Second)

		line := e.loop.Timeline()
		require.Len(e, line, 11)
		for i, s := range line {
			require.Equal(e, began.Add(time.Duration(i)*time.Second), s.At)
			switch {
			case i < 2:
				require.Zero(e, s.Failing+s.Operations+s.Failures, "second %d", i)
			case i == 2:
				require.Equal(e, 2, s.Failing)
				require.Equal(e, 8, s.Operations, "four attempts each")
				require.Equal(e, 8, s.Failures)
			case i == 3:
				require.Equal(e, 2, s.Failing, "as in the second before")
			}
		}
		require.Zero(e, line[10].Failing)
	}, nil)
}

// Before the start a loop has no time line, and its readers do not panic.
func TestReadersWorkBeforeTheStart(t *testing.T) {
	e := newEnv(t)
	l, err := reconciler.New(e.config())
	require.NoError(t, err)
	e.put(1, 1)
	require.Empty(t, l.Timeline())
	s := l.Snapshot(t.Context())
	require.Equal(t, inspect.ConditionNotStarted, s.Condition)
	require.Equal(t, 1, s.Objects)
	require.Equal(t, inspect.StateUnknown, l.Explain(t.Context(), "1").State)
	page, err := l.Objects(t.Context(), inspect.ObjectQuery{})
	require.NoError(t, err)
	require.Equal(t, inspect.StateUnknown, page.Objects[0].State)
	_, err = l.Retry(t.Context())
	require.ErrorIs(t, err, inspect.ErrNotStarted)
}
