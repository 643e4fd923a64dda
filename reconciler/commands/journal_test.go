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

	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestFirstFailuresListEachObjectOnce(t *testing.T) {
	r := routes()
	for i, what := range []string{"a done", "b failed", "c blocked", "b failed", "d terminal", "b done", "c failed", "e requeue", "a failed"} {
		key, result, _ := strings.Cut(what, " ")
		r.History = append(r.History, inspect.Event{Round: uint64(i), Operation: inspect.Operation{Key: key, Result: inspect.Result(result)}})
	}
	s := newShell(t, r)
	for line, want := range map[string]string{"": "b1 d4 c6 a8", " --limit=2": "b1 d4", " --limit=9": "b1 d4 c6 a8"} {
		out, err := s.run("reconciler/journal agent --first-failures --format=json" + line)
		require.NoError(t, err)
		var journals []struct{ Events []inspect.Event }
		require.NoError(t, json.Unmarshal([]byte(out), &journals))
		var got []string
		for _, e := range journals[0].Events {
			got = append(got, fmt.Sprint(e.Key, e.Round))
		}
		require.Equal(t, want, strings.Join(got, " "), line)
	}
	_, err := s.run("reconciler/journal agent --first-failures --since=5m --key=a --limit=1")
	require.NoError(t, err)
	require.Regexp(t, "^events {Key:a Since:20.* Limit:0}$", r.Take()[3])
	s.fails("--rounds and --first-failures are both set", "reconciler/journal agent --rounds --first-failures")
}

func TestRoundsAreListedWithTheirPrunes(t *testing.T) {
	r := routes()
	r.Rounds = []inspect.Round{
		{Prune: &inspect.Prune{Listed: 9, Swept: 2, Took: time.Second}}, {Prune: &inspect.Prune{Error: "no\nmemory"}},
	}
	out, err := newShell(t, r).run("reconciler/journal agent --rounds")
	require.NoError(t, err)
	require.Contains(t, out, "swept 2 of 9 in 1 s\n")
	require.Contains(t, out, "failed: no\\nmemory\n")
	require.Equal(t, 3, strings.Count(out, "\n"))
}
