// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package edges_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/edges"
)

func TestLostPairsStayUntilTheirRoundIsRemoved(t *testing.T) {
	var l edges.Lost
	row := edges.InputRow("a")
	x, y, further := edges.Pair{row, "x"}, edges.Pair{row, "y"}, edges.Pair{edges.FurtherRow(0, "a"), "a"}
	l.Add(x, 1)
	l.Add(y, 2)
	l.Add(x, 3)
	l.Add(further, 3)
	require.ElementsMatch(t, []edges.Pair{x, y, further}, l.All())
	require.Equal(t, []string{"x", "y"}, slices.Sorted(l.Of(row)))
	l.Remove(l.All(), 2)
	require.ElementsMatch(t, []edges.Pair{x, further}, l.All(), "x came apart again")
	l.Remove([]edges.Pair{x, x, y}, 3)
	require.Equal(t, []edges.Pair{further}, l.All())
	require.Empty(t, slices.Collect(l.Of(row)))
}

func TestTooManyLostPairsAreForgottenTogether(t *testing.T) {
	var l edges.Lost
	for i := range edges.MaxLost {
		l.Add(edges.Pair{edges.InputRow("a"), fmt.Sprint(i)}, 5)
	}
	require.False(t, l.Forgot())
	l.Add(edges.Pair{edges.InputRow("a"), "one more"}, 6)
	require.True(t, l.Forgot())
	require.Empty(t, l.All())
	l.Remember(5)
	require.True(t, l.Forgot())
	l.Remember(6)
	require.False(t, l.Forgot())
	l.Forget()
	l.Remember(0)
	require.True(t, l.Forgot(), "a derivation has to have made a round")
	l.Remember(1)
	require.False(t, l.Forgot())
}
