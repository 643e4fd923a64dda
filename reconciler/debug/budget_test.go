// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Package internal/bounded says what is left out.
func TestListsAreBoundedInBytesAndCountTheRest(t *testing.T) {
	// large is an error text that is several times as long in JSON.
	large := strings.Repeat("<&", 8<<10)
	f := full()
	f.Lines = failing(200)
	f.History, f.Rounds, f.Shown.Errors = nil, nil, nil
	f.Shown.PruneFailure, f.Shown.Breaker = large, large
	for i := range 200 {
		at := epoch.Add(time.Duration(i) * time.Second)
		f.Lines[i].Error = large
		f.History = append(f.History, inspect.Event{Round: uint64(i), Started: at, Operation: inspect.Operation{Key: "a", Result: inspect.ResultFailed, Error: large}})
		f.Rounds = append(f.Rounds, inspect.Round{Sequence: uint64(i), Started: at, Prune: &inspect.Prune{Error: large}})
	}
	for i := range 32 {
		f.Shown.Errors = append(f.Shown.Errors, inspect.ErrorClass{Class: fmt.Sprint(i), Key: "k", Example: large})
	}
	s := serve(t, nil, f)
	for path, more := range map[string]string{
		"objects?reconciler=agent/v4&limit=1000":       "Next page",
		"journal?reconciler=agent/v4&limit=1000":       "further operations are left out",
		"journal?reconciler=agent/v4&limit=1000&key=a": "further operations are left out",
	} {
		require.Less(t, len(s.json(path)), 2<<20+1<<12, "two lists of 1 MiB, and their frame")
		assert.Contains(t, s.page(path), more)
	}
	journal := decode[struct {
		Events, Rounds []struct{ Round uint64 }
		EventsOmitted  int `json:"events_omitted"`
		RoundsOmitted  int `json:"rounds_omitted"`
	}](t, s.json("journal?reconciler=agent/v4&limit=1000"))
	require.Equal(t, 200, len(journal.Events)+journal.EventsOmitted)
	require.Equal(t, 200, len(journal.Rounds)+journal.RoundsOmitted)
	require.EqualValues(t, 199, journal.Events[len(journal.Events)-1].Round, "the latest are kept")
	require.EqualValues(t, 199, journal.Rounds[len(journal.Rounds)-1].Round)
	require.NotContains(t, s.json("journal?reconciler=agent/v4&limit=1"), "omitted")
	// The overview has the errors of all reconcilers and cuts them. The page of one reconciler has them in full.
	require.Less(t, len(s.json("")), 1<<17)
	require.Greater(t, len(s.json("show?reconciler=agent/v4")), 32*len(large))
}
