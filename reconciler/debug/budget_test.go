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

func TestObjectPagesAreBoundedInBytes(t *testing.T) {
	f := full()
	f.Lines = failing(200)
	for i := range f.Lines {
		f.Lines[i].Error = large
	}
	s := serve(t, nil, f)
	var keys []string
	pages := 0
	for after := ""; ; pages++ {
		text := s.json("objects?reconciler=agent/v4&limit=1000&after=" + after)
		require.Less(t, len(text), maxPage)
		page := decode[inspect.ObjectPage](t, text)
		require.NotEmpty(t, page.Objects)
		for _, o := range page.Objects {
			keys = append(keys, o.Key)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	require.Len(t, keys, 200, "in %d pages", pages)
	for i, key := range keys {
		require.Equal(t, fmt.Sprintf("route-%d", i), key)
	}
	assert.Contains(t, s.page("objects?reconciler=agent/v4&limit=1000"), "Next page")
}

func TestAnObjectLargerThanAPageIsShownAlone(t *testing.T) {
	f := full()
	f.Lines = failing(3)
	f.Lines[1].Error = strings.Repeat("x", 3<<20)
	s := serve(t, nil, f)
	for i, after := range []string{"", "1", "2"} {
		page := decode[inspect.ObjectPage](t, s.json("objects?reconciler=agent/v4&after="+after))
		require.Len(t, page.Objects, 1)
		require.Equal(t, f.Lines[i].Key, page.Objects[0].Key)
	}
}

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

func TestSmallJournalPagesOmitNothing(t *testing.T) {
	text := serve(t, nil, full()).json("journal?reconciler=agent/v4")
	assert.NotContains(t, text, "omitted")
}

func TestRoundsAreListedWhenTheirOperationsDoNotFit(t *testing.T) {
	f := full()
	f.Rounds = nil
	for i := range 20 {
		r := inspect.Round{Sequence: uint64(i), Started: epoch}
		for range 200 {
			r.Operations = append(r.Operations, inspect.Operation{Result: inspect.ResultFailed, Error: strings.Repeat("x", 1000)})
		}
		f.Rounds = append(f.Rounds, r)
	}
	s := serve(t, nil, f)
	text := s.json("journal?reconciler=agent/v4")
	require.Less(t, len(text), maxPage)
	rounds := decode[struct{ Rounds []inspect.Round }](t, text).Rounds
	require.Len(t, rounds, 20)
	require.Empty(t, rounds[0].Operations)
	require.Len(t, rounds[19].Operations, 200)
	page := s.page("journal?reconciler=agent/v4")
	assert.NotContains(t, page, "rounds are left out")
	assert.Equal(t, 20, strings.Count(page, ">200<"))
}
