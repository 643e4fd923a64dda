// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestListsCutTheirTextsAndExplainHasThemInFull(t *testing.T) {
	// The texts have the maximal length that reconcilers keep. The second is six times as long in JSON.
	large, escaped := strings.Repeat("é", reconciler.MaxErrorText/2), strings.Repeat("\x01", reconciler.MaxErrorText)
	r, second := routes(), routes()
	for i := range 200 {
		at := time.Unix(int64(i), 0)
		r.Lines = append(r.Lines, inspect.ObjectLine{Key: fmt.Sprint("route-", i), Error: large})
		failed := inspect.Operation{Round: uint64(i), Started: at, Key: fmt.Sprint(i), Result: inspect.ResultFailed, Error: large}
		r.History = append(r.History, failed)
		r.Passed = append(r.Passed, inspect.Round{
			Sequence: uint64(i), Started: at, Operations: []inspect.Operation{failed}, Prune: &inspect.Prune{Error: large},
		})
	}
	for i := range 100 {
		r.Rest.Keys = append(r.Rest.Keys, inspect.Unreconciled{Key: fmt.Append(nil, "route-", i), Err: errors.New(escaped)})
		r.Shown.Errors = append(r.Shown.Errors, inspect.ErrorClass{Class: fmt.Sprint(i), Key: "k", Example: large})
	}
	second.Identity.Module, second.History, second.Passed = "second", r.History, r.Passed
	s := newShell(t, r, second)
	for _, line := range []string{
		"reconciler", "reconciler/objects agent --limit=1000", "reconciler/journal agent", "reconciler/journal",
		"reconciler/journal --rounds", "reconciler/journal agent --first-failures", "reconciler/wait agent",
	} {
		for _, format := range []string{"", " --format=json"} {
			out, err := s.run(line + format)
			require.NoError(t, err)
			require.Less(t, len(out), 1<<19, line+format)
			require.NotContains(t, out, large[:1000])
		}
	}
	require.Equal(t, large, r.History[0].Error, "a list cuts copies")
	r.Explanation = inspect.Explanation{Key: "a", Error: large}
	out, err := s.run("reconciler/explain agent a")
	require.NoError(t, err)
	require.Contains(t, out, large)
}
