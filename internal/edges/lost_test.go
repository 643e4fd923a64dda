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
	l.Add(edges.Pair{Subject: row, Target: "x", Of: 1})
	l.Add(edges.Pair{Subject: row, Target: "y", Of: 2})
	l.Add(edges.Pair{Subject: row, Target: "x", Of: 3})
	l.Add(edges.Pair{Subject: edges.FurtherRow(0, "a"), Target: "a", Of: 3})
	require.Equal(t, 3, l.Len())
	l.Remove(edges.Pair{Subject: row, Target: "x", Of: 1})
	require.Equal(t, []string{"x", "y"}, slices.Sorted(l.Of(row)), "x came apart again")
	l.RemoveUpTo(2)
	require.Equal(t, []string{"x"}, slices.Sorted(l.Of(row)))
	l.Remove(edges.Pair{Subject: row, Target: "x", Of: 3})
	l.Remove(edges.Pair{Subject: row, Target: "x", Of: 3})
	require.Equal(t, []edges.Pair{{Subject: edges.FurtherRow(0, "a"), Target: "a", Of: 3}}, l.All())
}

func TestTooManyLostPairsAreForgottenTogether(t *testing.T) {
	var l edges.Lost
	for i := range edges.MaxLost {
		l.Add(edges.Pair{Subject: edges.Unknown(), Target: fmt.Sprint(i), Of: 5})
	}
	require.False(t, l.Forgot())
	l.Add(edges.Pair{Subject: edges.Unknown(), Target: "one more", Of: 6})
	require.True(t, l.Forgot())
	require.Zero(t, l.Len())
	l.RemoveUpTo(5)
	require.True(t, l.Forgot())
	l.RemoveUpTo(6)
	require.False(t, l.Forgot())
	l.Forget()
	l.RemoveUpTo(0)
	require.True(t, l.Forgot(), "a derivation has to have made a round")
	l.RemoveUpTo(1)
	require.False(t, l.Forgot())
}
