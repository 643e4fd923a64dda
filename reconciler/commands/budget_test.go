// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Package internal/bounded says what is left out.
func TestAnswersAreBoundedInBytesAndCountTheRest(t *testing.T) {
	// The texts have the maximal length that reconcilers keep. The second is six times as long in JSON.
	large, escaped := strings.Repeat("é", reconciler.MaxErrorText/2), strings.Repeat("\x01", reconciler.MaxErrorText)
	r, second := routes(), routes()
	for i := range 200 {
		at := time.Unix(int64(i), 0)
		r.Lines = append(r.Lines, inspect.ObjectLine{Key: fmt.Sprint("route-", i), Error: large})
		failed := inspect.Operation{Round: uint64(i), Started: at, Key: fmt.Sprint(i), Result: inspect.ResultFailed, Error: large}
		r.History = append(r.History, failed)
		r.Passed = append(r.Passed, inspect.Round{Sequence: uint64(i), Started: at, Prune: &inspect.Prune{Error: large}})
	}
	for i := range 100 {
		r.Rest.Keys = append(r.Rest.Keys, inspect.Unreconciled{Key: fmt.Append(nil, "route-", i), Err: errors.New(escaped)})
		r.Shown.Errors = append(r.Shown.Errors, inspect.ErrorClass{Class: fmt.Sprint(i), Key: "k", Example: large})
	}
	second.Identity.Module, second.History, second.Passed = "second", r.History, r.Passed
	s := newShell(t, r, second)
	for line, more := range map[string]string{
		"reconciler": "", "reconciler/show agent": "",
		"reconciler/objects agent --limit=1000":     `\nmore: reconciler/objects agent --limit=1000 --after=\d+\n$`,
		"reconciler/journal agent":                  `(?m)^\d+ earlier operations are left out: .* --`,
		"reconciler/journal":                        `(?m)^\d+ earlier operations are left out: .* --`,
		"reconciler/journal --rounds":               `(?m)^\d+ earlier rounds are left out: .* --`,
		"reconciler/journal agent --first-failures": `(?m)^\d+ later failures are left out: .* --`,
		"reconciler/wait agent":                     `(?m)^and \d+ more$`,
	} {
		out, err := s.run(line)
		require.NoError(t, err)
		require.Regexp(t, more, out, line)
		// A list of 1 MiB, with its indentation and frame.
		require.Less(t, len(out), 3<<19, line)
		if line != "reconciler/show agent" {
			out, err = s.run(line + " --format=json")
			require.NoError(t, err)
			require.Less(t, len(out), 3<<19, line)
		}
		if !strings.HasPrefix(line, "reconciler/journal") {
			continue
		}
		var journals []struct {
			Events, Rounds []struct{ Round int }
			Omitted        int
			Narrow         string
		}
		require.NoError(t, json.Unmarshal([]byte(out), &journals))
		for _, j := range journals {
			require.Equal(t, 200, len(j.Events)+len(j.Rounds)+j.Omitted, line)
			require.NotEmpty(t, j.Narrow)
		}
	}
	// Tables cut long texts, which explain prints in full.
	r.Explanation = inspect.Explanation{Key: "a", Error: strings.Repeat("é", 8<<10)}
	out, err := s.run("reconciler/explain agent a")
	require.NoError(t, err)
	require.Contains(t, out, r.Explanation.Error)
	r.History = r.History[:1]
	out, err = s.run("reconciler/journal agent --format=json")
	require.NoError(t, err)
	require.NotContains(t, out, "omitted")
}
