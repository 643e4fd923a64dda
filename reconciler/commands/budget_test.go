// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// maxAnswer bounds the output of a command: a list of 1 MiB, with its indentation and frame.
const maxAnswer = 3 << 19

// large is an error text of the maximal length that reconcilers keep.
var large = strings.Repeat("é", reconciler.MaxErrorText/2)

func TestObjectListsAreBoundedInBytes(t *testing.T) {
	r := routes()
	for i := range 1000 {
		r.Lines = append(r.Lines, inspect.ObjectLine{Key: fmt.Sprint("route-", i), Error: large})
	}
	s := newShell(t, r)
	for _, format := range []string{"json", "table"} {
		seen, after := 0, ""
		for pages := 0; pages == 0 || after != ""; pages++ {
			require.Less(t, pages, 1000)
			out, err := s.run("reconciler/objects agent --limit=1000 --format=" + format + " --after=" + after)
			require.NoError(t, err)
			require.Less(t, len(out), maxAnswer, format)
			seen += strings.Count(out, "route-")
			after = ""
			if format == "json" {
				var page inspect.ObjectPage
				require.NoError(t, json.Unmarshal([]byte(out), &page))
				after = page.Next
			} else if _, next, some := strings.Cut(out, "--after="); some {
				after = strings.TrimSpace(next)
			}
		}
		require.Equal(t, 1000, seen, format)
	}
}

func TestJournalsAreBoundedInBytesAndCountTheRest(t *testing.T) {
	r := routes()
	for i := range 1024 {
		at := time.Unix(int64(i), 0)
		r.History = append(r.History, inspect.Event{Round: uint64(i), Started: at, Operation: inspect.Operation{Key: fmt.Sprint(i), Result: inspect.ResultFailed, Error: large}})
		r.Rounds = append(r.Rounds, inspect.Round{Sequence: uint64(i), Started: at, Prune: &inspect.Prune{Error: large}})
	}
	second := routes()
	second.Identity.Module, second.History, second.Rounds = "second", r.History, r.Rounds
	s := newShell(t, r, second)
	for flags, firstRound := range map[string]bool{"agent": false, "": false, "--rounds": false, "agent --first-failures": true} {
		out, err := s.run("reconciler/journal " + flags + " --format=json")
		require.NoError(t, err)
		require.Less(t, len(out), maxAnswer, flags)
		var journals []struct {
			Events, Rounds []struct{ Round int }
			Omitted        int
			Narrow         string
		}
		require.NoError(t, json.Unmarshal([]byte(out), &journals))
		for _, j := range journals {
			kept := append(j.Events, j.Rounds...)
			require.NotEmpty(t, kept)
			require.Equal(t, 1024, len(kept)+j.Omitted)
			require.NotEmpty(t, j.Narrow)
			require.Equal(t, firstRound, kept[0].Round == 0)
			require.Equal(t, !firstRound, kept[len(kept)-1].Round == 1023)
		}
		out, err = s.run("reconciler/journal " + flags)
		require.NoError(t, err)
		require.Less(t, len(out), maxAnswer, flags)
		require.Regexp(t, `(?m)^\d+ (later|earlier) (operations|failures|rounds) are left out: .* --`, out)
	}
	short := routes()
	short.History = r.History[:1]
	out, _ := newShell(t, short).run("reconciler/journal agent --format=json")
	require.NotContains(t, out, "omitted")
}

// The list has the errors of all reconcilers, so it must cut them.
func TestReconcilerListCutsErrorExamples(t *testing.T) {
	r := routes()
	for i := range 32 {
		r.Shown.Errors = append(r.Shown.Errors, inspect.ErrorClass{Class: fmt.Sprint(i), Key: "k", Example: large})
	}
	s := newShell(t, r)
	out, err := s.run("reconciler --format=json")
	require.NoError(t, err)
	require.Less(t, len(out), 1<<16)
	require.Equal(t, large, r.Shown.Errors[0].Example)
	out, err = s.run("reconciler/show agent")
	require.NoError(t, err)
	require.Less(t, len(out), 1<<16)
}

func TestTablesCutLongTextsAndExplainPrintsThemInFull(t *testing.T) {
	r := routes()
	r.Lines = []inspect.ObjectLine{{Key: "a", Error: large}}
	r.Explanation = inspect.Explanation{Key: "a", Error: large}
	s := newShell(t, r)
	out, err := s.run("reconciler/objects agent")
	require.NoError(t, err)
	require.Less(t, len(out), 2000)
	require.Regexp(t, `é\.\.\. \(\d+ bytes left out\)\n`, out)
	out, err = s.run("reconciler/explain agent a")
	require.NoError(t, err)
	require.Contains(t, out, large)
}

// manyOperations returns rounds with too many operations for one answer. Those of the last round fit.
func manyOperations() (rounds []inspect.Round) {
	for i := range 20 {
		r := inspect.Round{Sequence: uint64(i), Started: time.Unix(int64(i), 0)}
		for range 200 {
			r.Operations = append(r.Operations, inspect.Operation{Result: inspect.ResultFailed, Error: strings.Repeat("x", 1000)})
		}
		rounds = append(rounds, r)
	}
	return rounds
}

func TestRoundsAreListedWhenTheirOperationsDoNotFit(t *testing.T) {
	r := routes()
	r.Rounds = manyOperations()
	s := newShell(t, r)
	out, err := s.run("reconciler/journal agent --rounds --format=json")
	require.NoError(t, err)
	require.Less(t, len(out), maxAnswer)
	var journals []struct{ Rounds []inspect.Round }
	require.NoError(t, json.Unmarshal([]byte(out), &journals))
	require.Len(t, journals[0].Rounds, 20)
	require.Empty(t, journals[0].Rounds[0].Operations)
	require.Len(t, journals[0].Rounds[19].Operations, 200)

	out, err = s.run("reconciler/journal agent --rounds")
	require.NoError(t, err)
	require.NotContains(t, out, "left out")
	require.Equal(t, 20, strings.Count(out, " 200 "))
}
