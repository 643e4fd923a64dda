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

// maxPage bounds the bytes of a page's JSON: two lists of 1 MiB, and their frame.
const maxPage = 2<<20 + 1<<12

// large is an error text that is several times as long in JSON.
var large = strings.Repeat("<&", 8<<10)

type journalPage struct {
	Events        []inspect.Event
	EventsOmitted int `json:"events_omitted"`
	Rounds        []struct{ Round uint64 }
	RoundsOmitted int `json:"rounds_omitted"`
}

func TestJournalPagesAreBoundedInBytesAndCountTheRest(t *testing.T) {
	f := full()
	f.History, f.Rounds = nil, nil
	for i := range 200 {
		at := epoch.Add(time.Duration(i) * time.Second)
		f.History = append(f.History, inspect.Event{Round: uint64(i), Started: at, Operation: inspect.Operation{Key: "a", Result: inspect.ResultFailed, Error: large}})
		f.Rounds = append(f.Rounds, inspect.Round{Sequence: uint64(i), Started: at, Prune: &inspect.Prune{Error: large}})
	}
	s := serve(t, nil, f)
	for _, key := range []string{"", "&key=a"} {
		text := s.json("journal?reconciler=agent/v4&limit=1000" + key)
		require.Less(t, len(text), maxPage)
		page := decode[journalPage](t, text)
		require.NotEmpty(t, page.Events)
		require.Equal(t, 200, len(page.Events)+page.EventsOmitted)
		require.EqualValues(t, 199, page.Events[len(page.Events)-1].Round, "the latest are kept")
		if key == "" {
			require.NotEmpty(t, page.Rounds)
			require.Equal(t, 200, len(page.Rounds)+page.RoundsOmitted)
			require.EqualValues(t, 199, page.Rounds[len(page.Rounds)-1].Round)
		}
	}
	assert.Contains(t, s.page("journal?reconciler=agent/v4&limit=1000"), "further operations are left out")
}

func TestObjectPagesAreBoundedInBytes(t *testing.T) {
	f := full()
	f.Lines = failing(200)
	for i := range f.Lines {
		f.Lines[i].Error = large
	}
	s := serve(t, nil, f)
	seen := 0
	for after := ""; seen == 0 || after != ""; {
		text := s.json("objects?reconciler=agent/v4&limit=1000&after=" + after)
		require.Less(t, len(text), maxPage)
		page := decode[inspect.ObjectPage](t, text)
		require.NotEmpty(t, page.Objects)
		seen, after = seen+len(page.Objects), page.Next
	}
	require.Equal(t, 200, seen)
	assert.Contains(t, s.page("objects?reconciler=agent/v4&limit=1000"), "Next page")
}

func TestAnObjectLargerThanAPageIsShownAlone(t *testing.T) {
	f := full()
	f.Lines[1].Error = strings.Repeat("x", 3<<20)
	s := serve(t, nil, f)
	for i, after := range []string{"", "1", "2"} {
		page := decode[inspect.ObjectPage](t, s.json("objects?reconciler=agent/v4&after="+after))
		require.Equal(t, f.Lines[i:i+1], page.Objects)
	}
}

// The overview has the errors of all reconcilers and cuts them. The page of one reconciler has them in full.
func TestOverviewCutsLongTexts(t *testing.T) {
	f := full()
	f.Shown.PruneFailure, f.Shown.Breaker = large, large
	f.Shown.Errors = nil
	for i := range 32 {
		f.Shown.Errors = append(f.Shown.Errors, inspect.ErrorClass{Class: fmt.Sprint(i), Key: "k", Example: large})
	}
	s := serve(t, nil, f)
	require.Less(t, len(s.json("")), 1<<17)
	require.Greater(t, len(s.json("show?reconciler=agent/v4")), 32*len(large))
}
