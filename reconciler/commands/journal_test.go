// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
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

func TestRoundsAreListedWithoutTheirOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := routes()
		for i := range 3 {
			r.Rounds = append(r.Rounds, inspect.Round{Sequence: uint64(i + 1), Started: time.Now(), Reason: inspect.ReasonChange})
			time.Sleep(time.Minute)
		}
		r.Rounds[2].Prune = &inspect.Prune{Error: "no\nmemory"}
		r.Rounds[1].Prune = &inspect.Prune{Listed: 9, Swept: 2, Took: time.Second}
		s := newShell(t, r)
		for line, want := range map[string]int{"": 3, " --limit=2": 2, " --since=90s": 1, " --since=2m": 2} {
			out, err := s.run("reconciler/journal agent --rounds" + line)
			require.NoError(t, err)
			require.Equal(t, want+1, strings.Count(out, "\n"), "%s: %s", line, out)
			require.Contains(t, out, `failed: no\nmemory`)
		}
		out, _ := s.run("reconciler/journal agent --rounds")
		require.Contains(t, out, "swept 2 of 9 in 1 s")
	})
}
