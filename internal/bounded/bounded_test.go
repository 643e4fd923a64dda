// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package bounded_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/bounded"
	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// long is an error text of the maximal length that reconcilers keep.
var long = strings.Repeat("é", reconciler.MaxErrorText/2)

func TestListsHaveWhatFitsAndAtLeastOneElement(t *testing.T) {
	list := []string{"12345678", "12345678", "12345678"} // ten bytes each, as JSON
	for size, want := range map[int]int{0: 1, 9: 1, 19: 1, 20: 2, 29: 2, 30: 3, 1000: 3} {
		first, omitted := bounded.First(list, size)
		require.Equal(t, []int{want, 3 - want}, []int{len(first), omitted}, size)
		latest, omitted := bounded.Latest([]string{"1234567x", list[1], list[2]}, size)
		require.Equal(t, []int{want, 3 - want}, []int{len(latest), omitted}, size)
		require.Equal(t, list[2], latest[len(latest)-1])
	}
	first, _ := bounded.First([]string{"\u009b", "\u009b"}, 10)
	require.Len(t, first, 1, "what answers escape counts as it is written")
}

func TestPagesOfObjectsAreBoundedInBytes(t *testing.T) {
	var of fake.Controller
	for i := range 1000 {
		of.Lines = append(of.Lines, inspect.ObjectLine{Key: fmt.Sprint(i), Error: long})
	}
	of.Lines[500].Error = strings.Repeat("x", 3<<20)
	var got []inspect.ObjectLine
	for q := (inspect.ObjectQuery{Limit: 1000}); ; {
		page, err := bounded.Objects(t.Context(), &of, q)
		require.NoError(t, err)
		size := 0
		for _, o := range page.Objects {
			size += len(o.Error)
		}
		require.True(t, size < bounded.MaxList || len(page.Objects) == 1, "%d bytes", size)
		got = append(got, page.Objects...)
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	require.Equal(t, of.Lines, got)
	of.ListErr = errors.New("busy")
	_, err := bounded.Objects(t.Context(), &of, inspect.ObjectQuery{})
	require.ErrorIs(t, err, of.ListErr)
}

func TestRoundsLoseTheirOperationsBeforeTheyAreLeftOut(t *testing.T) {
	failed := inspect.Operation{Result: inspect.ResultFailed, Error: strings.Repeat("x", 1000)}
	var rounds []inspect.Round
	for i := range 20 {
		rounds = append(rounds, inspect.Round{
			Sequence: uint64(i), Operations: slices.Repeat([]inspect.Operation{failed}, 200),
		})
	}
	whole, answer, omitted := bounded.Rounds(rounds, bounded.MaxList)
	require.Zero(t, omitted)
	require.Equal(t, rounds, whole)
	require.Empty(t, answer[0].Operations)
	require.Len(t, answer[19].Operations, 200)

	for i := range rounds {
		rounds[i].Prune = &inspect.Prune{Error: strings.Repeat("x", 100<<10)}
	}
	whole, answer, omitted = bounded.Rounds(rounds, bounded.MaxList)
	require.Equal(t, 20, len(answer)+omitted)
	require.Equal(t, rounds[omitted:], whole)
	require.EqualValues(t, 19, answer[len(answer)-1].Sequence)
}

func TestTextsOfASnapshotAreCutInACopy(t *testing.T) {
	s := inspect.Snapshot{PruneFailure: long, Breaker: long, Errors: []inspect.ErrorClass{{Example: long}}}
	cut := s
	bounded.CutTexts(&cut)
	for _, text := range []string{cut.PruneFailure, cut.Breaker, cut.Errors[0].Example} {
		require.Less(t, len(text), 400)
	}
	require.Equal(t, long, s.Errors[0].Example)
}
