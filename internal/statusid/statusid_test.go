// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package statusid_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/statusid"
)

func TestOnlyIDsThatWereGivenOutAreOwn(t *testing.T) {
	first := statusid.Next()
	last := statusid.Next()
	require.Greater(t, last, first)
	require.True(t, statusid.IsOwn(first))
	require.True(t, statusid.IsOwn(last))
	require.False(t, statusid.IsOwn(0))
	require.False(t, statusid.IsOwn(last+1))
	require.True(t, statusid.IsOwn(statusid.Next()))
	// Processes that count from 1, such as those of statedb/reconciler, and one with a random first ID.
	require.False(t, statusid.IsOwn(1))
	require.False(t, statusid.IsOwn(first+1<<40))
}
