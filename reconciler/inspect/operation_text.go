// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"slices"
	"strconv"
	"time"

	"github.com/statekeel/statekeel/internal/text"
)

// OperationsText returns operations as a table for people to read, one line each, with the distance of
// their times from at. The table has a column for notes if one of them has a note. Characters that are
// not printable are escaped.
func OperationsText(operations []Operation, at time.Time) string {
	return operationTable(operations, at, true).String()
}

func operationTable(operations []Operation, at time.Time, keys bool) *text.Table {
	var t text.Table
	notes := slices.ContainsFunc(operations, func(o Operation) bool { return o.Note != "" })
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
	for i := range operations {
		o := &operations[i]
		row(text.Stamp(o.Started), text.Relative(o.Started, at), text.Name(o.Key), plainOr(o.Note, ""),
			strconv.FormatUint(o.Round, 10), text.Plain(o.Op), text.Plain(string(o.Cause)),
			strconv.FormatUint(o.Revision, 10), strconv.Itoa(o.Attempt), o.outcome(), text.Duration(o.Took),
			plainOr(o.Error, ""))
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
