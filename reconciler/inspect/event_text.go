// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"slices"
	"strconv"
	"time"

	"github.com/statekeel/statekeel/internal/text"
)

// EventsText returns events as a table for people to read, one line each, with the distance of their
// times from at. The table has a column for notes if one of the events has a note. Characters that are
// not printable are escaped.
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

// outcome returns the result, with "lost" or "merged" if that applies.
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

// plainOr returns [text.Plain] of s, or the text empty if s is empty.
func plainOr(s, empty string) string {
	if s == "" {
		return empty
	}
	return text.Plain(s)
}
