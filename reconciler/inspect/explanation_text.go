// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/text"
)

// String returns the explanation as lines for people to read: the state and its reason, then the
// details, then the latest operations as a table. Each line ends with a newline. Times are in UTC and
// RFC 3339, with their distance from At. Characters that are not printable are escaped.
func (e Explanation) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n", text.Printable(string(e.State)), text.Printable(e.Why))
	var f text.Fields
	f.Add("object", text.Name(e.Key)+" of "+text.Plain(e.Reconciler))
	e.addRow(&f)
	e.addTimes(&f)
	if e.Error != "" {
		f.Add("error", text.Plain(e.Error))
	}
	e.addWaits(&f)
	for _, note := range e.Notes {
		f.Add("note", text.Printable(note))
	}
	f.Append(&out)
	if len(e.Operations) > 0 {
		out.WriteString("last operations\n")
		operationTable(e.Operations, e.At, false).Append(&out, "  ")
	}
	return out.String()
}

func (e *Explanation) addRow(f *text.Fields) {
	switch {
	case e.Deleted:
		f.Add("row", "deleted")
	case e.Found:
		f.Add("row", fmt.Sprintf("%s, at revision %d", text.Plain(e.Status), e.Revision))
	default:
		f.Add("row", "none")
	}
}

func (e *Explanation) addTimes(f *text.Fields) {
	add := func(name string, t time.Time) {
		if !t.IsZero() {
			f.Add(name, text.When(t, e.At))
		}
	}
	add("since", e.Since)
	add("wanted", e.Wanted)
	if e.Attempts > 0 {
		f.Add("attempts", fmt.Sprintf("%d failed in a row", e.Attempts))
	}
	add("last attempt", e.LastAttempt)
	add("next attempt", e.Next)
}

func (e *Explanation) addWaits(f *text.Fields) {
	if e.BlockedOn != "" {
		f.Add("blocked on", text.Plain(e.BlockedOn))
	}
	if e.Group != "" {
		f.Add("group", text.Plain(e.Group))
	}
	if e.Holder != "" {
		f.Add("held up by", text.Name(e.Holder))
	}
	if e.Lane != "" {
		f.Add("lane", text.Plain(e.Lane))
	}
	if e.Ahead > 0 {
		f.Add("ahead of it", aheadText(e.Ahead, maxAheadShown))
	}
}

// maxAheadShown is the value at which the loop stops to count [Explanation].Ahead.
const maxAheadShown = 1000

// aheadText returns n as text, or "limit or more" at the limit.
func aheadText(n, limit int) string {
	if n >= limit {
		return strconv.Itoa(limit) + " or more"
	}
	return strconv.Itoa(n)
}
