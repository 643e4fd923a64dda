// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/metrics"
)

// Summary returns one line, without a newline: the condition, then the problems and the work that is
// not applied, or that all rows are applied.
func (s Snapshot) Summary() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(s.Failing, "failing")
	add(s.Blocked, "blocked")
	if s.Breaker != "" {
		parts = append(parts, "breaker open")
	}
	add(len(s.Stuck), "operation(s) stuck")
	add(len(s.Paused), "object(s) paused")
	if s.PausedByPredicate {
		parts = append(parts, "objects paused by PauseObjects")
	}
	add(s.Unseen, "change(s) unseen")
	if !s.OldestUnapplied.IsZero() {
		parts = append(parts, "oldest unapplied change "+text.Relative(s.OldestUnapplied, s.At))
	}
	switch {
	case s.AwaitsApproval:
		parts = append(parts, "resync awaits approval")
	case strings.HasPrefix(s.PruneFailure, "resync:"):
		parts = append(parts, "resync fails")
	case s.PruneFailure != "":
		parts = append(parts, "prune fails")
	}
	if s.AwaitsListing {
		parts = append(parts, "waits for the first listing")
	}
	if !s.Initialized {
		parts = append(parts, "table not initialised")
	}
	if len(parts) == 0 && s.Started.IsZero() {
		return text.Printable(string(s.Condition))
	}
	if len(parts) == 0 {
		parts = []string{fmt.Sprintf("all %d rows applied", s.Objects)}
	}
	return text.Printable(string(s.Condition)) + ": " + strings.Join(parts, ", ")
}

// String returns the snapshot as lines for people to read: [Snapshot.Summary], then the figures, then
// tables of states, lanes, errors and settings. Each line ends with a newline. Times are in UTC and
// RFC 3339, with their distance from At. Characters that are not printable are escaped.
func (s Snapshot) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n", text.Plain(s.ID.String()), s.Summary())
	var f text.Fields
	if s.Busy != "" {
		f.Add("busy", text.Printable(s.Busy))
	}
	f.Add("at", text.Stamp(s.At))
	if !s.Started.IsZero() {
		f.Add("started", text.When(s.Started, s.At))
	}
	s.addTable(&f)
	s.addProgress(&f)
	s.addTroubles(&f)
	f.Append(&out)
	s.appendCounts(&out)
	s.appendErrors(&out)
	s.appendSettings(&out)
	return out.String()
}

func (s *Snapshot) addTable(f *text.Fields) {
	table := fmt.Sprintf("%s, %d rows", text.Plain(s.ID.Table), s.Objects)
	switch {
	case s.Initialized:
		table += ", initialised"
	case len(s.Waiting) == 0:
		table += ", not initialised"
	default:
		var waiting []string
		for _, w := range s.Waiting {
			waiting = append(waiting, text.Plain(w))
		}
		table += ", not initialised: waits for " + strings.Join(waiting, ", ")
	}
	f.Add("table", table)
	f.Add("failing", strconv.Itoa(s.Failing))
	f.Add("blocked", strconv.Itoa(s.Blocked))
	f.Add("unseen", fmt.Sprintf("about %d changes", s.Unseen))
	if !s.OldestUnapplied.IsZero() {
		f.Add("unapplied since", text.When(s.OldestUnapplied, s.At))
	}
}

func (s *Snapshot) addProgress(f *text.Fields) {
	revision := fmt.Sprintf("%d, observed up to %d, attempted up to %d", s.Revision, s.Observed, s.Attempted)
	if s.LowWatermark > 0 {
		revision += fmt.Sprintf(", not applied from %d", s.LowWatermark)
	}
	f.Add("revision", revision)
}

func (s *Snapshot) addTroubles(f *text.Fields) {
	if s.Breaker != "" {
		f.Add("breaker", text.Printable(s.Breaker))
	}
	for _, key := range s.Paused {
		f.Add("paused", text.Plain(key))
	}
	if s.PausedByPredicate {
		f.Add("paused", "the objects that PauseObjects was given")
	}
	for _, stuck := range s.Stuck {
		f.Add("stuck", text.Printable(stuck))
	}
	if s.PruneFailure != "" {
		f.Add("prune failure", text.Printable(s.PruneFailure))
	}
	if !s.NextPrune.IsZero() {
		f.Add("next prune", text.When(s.NextPrune, s.At))
	}
	if !s.Listing.IsZero() {
		f.Add("listing since", text.When(s.Listing, s.At))
	}
	if s.Resync != nil {
		f.Add("last resync", text.When(s.Resync.Started, s.At)+", "+s.Resync.Summary())
	}
}

func (s *Snapshot) appendCounts(out *strings.Builder) {
	for _, counts := range []struct {
		title  string
		states []metrics.StateCount
	}{{"State", s.States}, {"Lane", s.Lanes}} {
		var t text.Table
		t.Row(counts.title, "Objects")
		some := false
		for _, c := range counts.states {
			if c.Count > 0 {
				t.Row(text.Plain(c.State), strconv.Itoa(c.Count))
				some = true
			}
		}
		if some {
			t.Append(out, "")
		}
	}
}

func (s *Snapshot) appendErrors(out *strings.Builder) {
	if len(s.Errors) == 0 {
		return
	}
	var t text.Table
	t.Row("Error", "Count", "Last", "Key", "Example")
	for _, e := range s.Errors {
		t.Row(text.Plain(e.Class), strconv.FormatUint(e.Count, 10), text.When(e.Last, s.At), text.Name(e.Key), text.Plain(e.Example))
	}
	t.Append(out, "")
}

func (s *Snapshot) appendSettings(out *strings.Builder) {
	if len(s.Settings) == 0 {
		return
	}
	var t text.Table
	t.Row("Setting", "Value")
	for _, setting := range s.Settings {
		t.Row(text.Plain(setting.Name), plainOr(setting.Value, "-"))
	}
	t.Append(out, "")
}
