// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"slices"
	"strconv"
	"time"

	"github.com/statekeel/statekeel/internal/text"
)

// EventsText returns events as a table for a person to read, a line each, with times as
// they are far from at. What is not printable is escaped. There is a column for notes if
// there is a note.
func EventsText(events []Event, at time.Time) string {
	return eventTable(events, at, true).String()
}

func eventTable(events []Event, at time.Time, keys bool) *text.Table {
	var t text.Table
	notes := slices.ContainsFunc(events, func(e Event) bool { return e.Note != "" })
	row := func(time, ago, key, note string, rest ...string) {
		cells := []string{time, ago}
		if keys {
			cells = append(cells, key)
		}
		cells = append(cells, rest...)
		if notes {
			cells = append(cells, note)
		}
		t.Row(cells...)
	}
	row("Time", "Ago", "Key", "Note", "Round", "Operation", "Cause", "Revision", "Attempt", "Result", "Took", "Error")
	for i := range events {
		e := &events[i]
		row(text.Stamp(e.Started), text.Relative(e.Started, at), text.Name(e.Key), plainOr(e.Note, ""),
			strconv.FormatUint(e.Round, 10), text.Plain(e.Op), text.Plain(string(e.Cause)),
			strconv.FormatUint(e.Revision, 10), strconv.Itoa(e.Attempt), e.outcome(), text.Duration(e.Took),
			plainOr(e.Error, ""))
	}
	return &t
}

// outcome is the result, and what became of it.
func (o *Operation) outcome() string {
	s := text.Plain(string(o.Result))
	if o.Lost {
		s += ", lost"
	}
	if o.Conflict {
		s += ", merged"
	}
	return s
}

// plainOr returns a text as [text.Plain] does, or another one if it is empty.
func plainOr(s, empty string) string {
	if s == "" {
		return empty
	}
	return text.Plain(s)
}
