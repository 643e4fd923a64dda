// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// maxAnswer bounds the output of a command: a list of 1 MiB, with its indentation and frame.
const maxAnswer = 3 << 19

// answer returns the output of a command, which must be bounded.
func (s *shell) answer(line string) string {
	s.Helper()
	out, err := s.run(line)
	require.NoError(s, err)
	require.Less(s, len(out), maxAnswer, line)
	return out
}

// large is an error text of the maximal length that reconcilers keep.
var large = strings.Repeat("é", reconciler.MaxErrorText/2)

func TestObjectListsAreBoundedInBytes(t *testing.T) {
	r := routes()
	for i := range 1000 {
		r.Lines = append(r.Lines, inspect.ObjectLine{Key: fmt.Sprint("route-", i), Error: large})
	}
	s := newShell(t, r)
	seen, after := 0, ""
	for pages := 0; pages == 0 || after != ""; pages++ {
		require.Less(t, pages, 1000)
		var page inspect.ObjectPage
		require.NoError(t, json.Unmarshal([]byte(s.answer("reconciler/objects agent --limit=1000 --format=json --after="+after)), &page))
		seen, after = seen+len(page.Objects), page.Next
	}
	require.Equal(t, 1000, seen)
	// The table cuts long texts, which explain prints in full.
	table := s.answer("reconciler/objects agent --limit=1000")
	require.Regexp(t, `é\.\.\. \(\d+ bytes left out\)\n`, table)
	require.Regexp(t, `\nmore: reconciler/objects agent --limit=1000 --after=\d+\n$`, table)
	r.Explanation = inspect.Explanation{Key: "a", Error: large}
	require.Contains(t, s.answer("reconciler/explain agent a"), large)
}

func TestJournalsAreBoundedInBytesAndCountTheRest(t *testing.T) {
	r, second := routes(), routes()
	for i := range 1024 {
		at := time.Unix(int64(i), 0)
		r.History = append(r.History, inspect.Event{Round: uint64(i), Started: at, Operation: inspect.Operation{Key: fmt.Sprint(i), Result: inspect.ResultFailed, Error: large}})
		r.Rounds = append(r.Rounds, inspect.Round{Sequence: uint64(i), Started: at, Prune: &inspect.Prune{Error: large}})
	}
	second.Identity.Module, second.History, second.Rounds = "second", r.History, r.Rounds
	s := newShell(t, r, second)
	for flags, firstRound := range map[string]bool{"agent": false, "": false, "--rounds": false, "agent --first-failures": true} {
		var journals []struct {
			Events, Rounds []struct{ Round int }
			Omitted        int
			Narrow         string
		}
		require.NoError(t, json.Unmarshal([]byte(s.answer("reconciler/journal "+flags+" --format=json")), &journals))
		for _, j := range journals {
			kept := append(j.Events, j.Rounds...)
			require.NotEmpty(t, kept)
			require.Equal(t, 1024, len(kept)+j.Omitted)
			require.NotEmpty(t, j.Narrow)
			require.Equal(t, firstRound, kept[0].Round == 0)
			require.Equal(t, !firstRound, kept[len(kept)-1].Round == 1023)
		}
		require.Regexp(t, `(?m)^\d+ (later|earlier) (operations|failures|rounds) are left out: .* --`, s.answer("reconciler/journal "+flags))
	}
	r.History = r.History[:1]
	require.NotContains(t, s.answer("reconciler/journal agent --format=json"), "omitted")
}

// Those of the last round fit.
func TestRoundsAreListedWhenTheirOperationsDoNotFit(t *testing.T) {
	r := routes()
	failed := inspect.Operation{Result: inspect.ResultFailed, Error: strings.Repeat("x", 1000)}
	for i := range 20 {
		r.Rounds = append(r.Rounds, inspect.Round{
			Sequence: uint64(i), Started: time.Unix(int64(i), 0), Operations: slices.Repeat([]inspect.Operation{failed}, 200),
		})
	}
	s := newShell(t, r)
	var journals []struct{ Rounds []inspect.Round }
	require.NoError(t, json.Unmarshal([]byte(s.answer("reconciler/journal agent --rounds --format=json")), &journals))
	require.Len(t, journals[0].Rounds, 20)
	require.Empty(t, journals[0].Rounds[0].Operations)
	require.Len(t, journals[0].Rounds[19].Operations, 200)
	table := s.answer("reconciler/journal agent --rounds")
	require.NotContains(t, table, "left out")
	require.Equal(t, 20, strings.Count(table, " 200 "))
}

func TestUnappliedListsAreBoundedInBytes(t *testing.T) {
	// The second text is six times as long in JSON.
	for _, text := range []string{large, strings.Repeat("\x01", reconciler.MaxErrorText)} {
		r := routes()
		for i := range 100 {
			r.Rest.Keys = append(r.Rest.Keys, inspect.Unreconciled{Key: fmt.Append(nil, "route-", i), Err: errors.New(text)})
		}
		s := newShell(t, r)
		var w struct {
			Unapplied []string
			More      int
		}
		require.NoError(t, json.Unmarshal([]byte(s.answer("reconciler/wait agent --format=json")), &w))
		require.NotEmpty(t, w.Unapplied)
		require.Equal(t, 100, len(w.Unapplied)+w.More)
		require.Regexp(t, `(?m)^and \d+ more$`, s.answer("reconciler/wait agent"))
	}
}

// The list has the errors of all reconcilers, so it must cut them.
func TestReconcilerListCutsEveryText(t *testing.T) {
	r := routes()
	r.Shown.PruneFailure, r.Shown.Breaker = large, large
	for i := range 32 {
		r.Shown.Errors = append(r.Shown.Errors, inspect.ErrorClass{Class: fmt.Sprint(i), Key: "k", Example: large})
	}
	s := newShell(t, r)
	require.Less(t, len(s.answer("reconciler --format=json")), 1<<16)
	require.Len(t, r.Shown.Breaker, len(large))
	require.Equal(t, large, r.Shown.Errors[0].Example)
	r.Shown.PruneFailure, r.Shown.Breaker = "", ""
	require.Less(t, len(s.answer("reconciler/show agent")), 1<<16)
}
