// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Before the start of a loop its readers do not panic.
func TestReadersWorkBeforeTheStart(t *testing.T) {
	e := newEnv(t)
	l, err := reconciler.New(e.config())
	require.NoError(t, err)
	e.put(1, 1)
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
