// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
)

// A state has the same name in figures and metrics, which use the names of the core, and in
// explanations, lists and waits.
func TestStatesHaveOneName(t *testing.T) {
	for _, state := range shownStates {
		require.Equal(t, state.String(), string(states[state]))
	}
	require.Len(t, shownStates, int(core.NumStates)-1, "all states but planned")
}
