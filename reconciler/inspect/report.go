// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/metrics"
)

// This file has the texts for people: the commands print them, and the page shows them.

// String returns the explanation as lines for people to read: the state and its reason, then the
// details, then the latest operations as a table. Each line ends with a newline. Times are in UTC and
// RFC 3339, with their distance from At. Characters that are not printable are escaped.
func (e Explanation) String() string {
	r := e.Report()
	return r.String()
}

// Report returns what String prints, as data.
func (e Explanation) Report() text.Report {
	r := text.Report{Lead: text.Value{Text: text.Printable(string(e.State)) + ": " + text.Printable(e.Why), Kind: text.StateKind(string(e.State))}}
	add := func(name string, value text.Value) {
		if value.Text != text.None {
			r.Field(name, value)
		}
	}
	r.Field("object", text.Value{Text: text.Name(e.Key) + " of " + text.Plain(e.Reconciler)})
	switch {
	case e.Deleted:
		r.Field("row", text.Value{Text: "deleted"})
	case e.Found:
		r.Field("row", text.Value{Text: fmt.Sprintf("%s, at revision %d", text.Plain(e.Status), e.Revision)})
	default:
		r.Field("row", text.Value{Text: "none"})
	}
	add("since", text.Time(e.Since, e.At))
	add("wanted", text.Time(e.Wanted, e.At))
	if e.Attempts > 0 {
		r.Field("attempts", text.Value{Text: fmt.Sprintf("%d failed in a row", e.Attempts), Kind: text.KindBad})
	}
	add("last attempt", text.Time(e.LastAttempt, e.At))
	add("next attempt", text.Time(e.Next, e.At))
	add("error", text.Code(e.Error))
	add("blocked on", text.Code(e.BlockedOn))
	add("group", text.Code(e.Group))
	if e.Holder != "" {
		r.Field("held up by", text.Object(e.Holder))
	}
	add("lane", text.Code(e.Lane))
	if e.Ahead > 0 {
		r.Field("ahead of it", text.Value{Text: aheadText(e.Ahead)})
	}
	for _, note := range e.Notes {
		r.Field("note", text.Value{Text: text.Printable(note)})
	}
	if e.InForce != nil {
		e.InForce.report(&r)
	}
	operations := OperationsTable(e.Operations, e.At)
	operations.Caption, operations.Empty = "Its latest operations", ""
	r.Tables = append(r.Tables, operations.Without("Key"))
	return r
}

// maxAheadShown is the value at which the loop stops to count [Explanation].Ahead.
const maxAheadShown = 1000

func aheadText(n int) string {
	if n >= maxAheadShown {
		return strconv.Itoa(maxAheadShown) + " or more"
	}
	return strconv.Itoa(n)
}

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

// kind returns how the page shows the summary.
func (s *Snapshot) kind() text.Kind {
	switch {
	case s.Failing > 0, s.Breaker != "", len(s.Stuck) > 0, s.PruneFailure != "", s.Condition == ConditionStopped:
		return text.KindBad
	case s.Condition == ConditionPaused:
		return text.KindHeld
	case s.Condition == ConditionRunning:
		return text.KindGood
	}
	return text.KindWait
}

// String returns the snapshot as lines for people to read: [Snapshot.Summary], then the figures, then
// tables of states, lanes, errors, differences of the last resync, and settings. Each line ends with a
// newline. Times are in UTC and RFC 3339, with their distance from At. Characters that are not printable
// are escaped.
func (s Snapshot) String() string {
	r := s.Report()
	return r.String()
}

// Report returns what String prints, as data.
func (s Snapshot) Report() text.Report {
	r := text.Report{Lead: text.Value{Text: text.Plain(s.ID.String()) + ": " + s.Summary(), Kind: s.kind()}}
	printable := func(name, value string, kind text.Kind) {
		if value != "" {
			r.Field(name, text.Value{Text: text.Printable(value), Kind: kind})
		}
	}
	moment := func(name string, t time.Time) {
		if !t.IsZero() {
			r.Field(name, text.Time(t, s.At))
		}
	}
	printable("busy", s.Busy, text.KindWait)
	r.Field("at", text.Value{Text: text.Stamp(s.At)})
	moment("started", s.Started)
	r.Field("table", text.Value{Text: s.table()})
	r.Field("failing", text.Alarm(s.Failing, text.KindBad))
	r.Field("blocked", text.Alarm(s.Blocked, text.KindWait))
	r.Field("unseen", text.Value{Text: fmt.Sprintf("about %d changes", s.Unseen)})
	moment("unapplied since", s.OldestUnapplied)
	revision := fmt.Sprintf("%d, observed up to %d, attempted up to %d", s.Revision, s.Observed, s.Attempted)
	if s.LowWatermark > 0 {
		revision += fmt.Sprintf(", not applied from %d", s.LowWatermark)
	}
	r.Field("revision", text.Value{Text: revision})
	if len(s.Calls) > 0 {
		var calls []string
		for _, c := range s.Calls {
			calls = append(calls, fmt.Sprintf("%d of %s", c.Count, text.Plain(c.State)))
		}
		r.Field("calls by changes", text.Value{Text: strings.Join(calls, ", ")})
		r.Field("look-ups", text.Value{Text: fmt.Sprintf("%d, of a whole table %d", s.Edges, s.EdgesToAll)})
	}
	printable("breaker", s.Breaker, text.KindBad)
	for _, key := range s.Paused {
		r.Field("paused", text.Object(key))
	}
	if s.PausedByPredicate {
		r.Field("paused", text.Value{Text: "the objects that PauseObjects was given", Kind: text.KindHeld})
	}
	for _, stuck := range s.Stuck {
		printable("stuck", stuck, text.KindBad)
	}
	printable("prune failure", s.PruneFailure, text.KindBad)
	moment("next prune", s.NextPrune)
	moment("listing since", s.Listing)
	if s.Resync != nil {
		r.Field("last resync", text.Value{Text: text.When(s.Resync.Started, s.At) + ", " + s.Resync.Summary()})
	}
	r.Tables = []text.Table{
		countsTable("states", "State", s.States), countsTable("lanes", "Lane", s.Lanes),
		s.errorsTable(), s.differencesTable(), s.settingsTable(),
	}
	return r
}

// table describes the table in one line.
func (s *Snapshot) table() string {
	table := fmt.Sprintf("%s, %d rows", text.Plain(s.ID.Table), s.Objects)
	if s.Initialized {
		return table + ", initialised"
	}
	if len(s.Waiting) == 0 {
		return table + ", not initialised"
	}
	var waiting []string
	for _, w := range s.Waiting {
		waiting = append(waiting, text.Plain(w))
	}
	return table + ", not initialised: waits for " + strings.Join(waiting, ", ")
}

// countsTable returns the numbers that are not zero, by state or lane.
func countsTable(id, column string, counts []metrics.StateCount) text.Table {
	t := text.Table{ID: id, Caption: "Objects by " + strings.ToLower(column), Columns: []string{column, "Objects"}}
	for _, c := range counts {
		if c.Count > 0 {
			t.Add(text.Value{Text: text.Plain(c.State), Kind: text.StateKind(c.State)}, text.Count(c.Count))
		}
	}
	return t
}

func (s *Snapshot) errorsTable() text.Table {
	t := text.Table{ID: "errors", Caption: "Errors by class", Columns: []string{"Error", "Count", "Last", "Key", "Example"}}
	for _, e := range s.Errors {
		t.Add(text.Code(e.Class), text.Count(e.Count), text.Time(e.Last, s.At), text.Object(e.Key), text.Code(e.Example))
	}
	return t
}

func (s *Snapshot) differencesTable() text.Table {
	t := text.Table{ID: "resync", Caption: "First differences of the last resync", Columns: []string{"Key", "Kind", "Difference"}}
	if s.Resync != nil {
		for _, d := range s.Resync.Differences {
			t.Add(text.Object(d.Key), text.Code(d.Kind), text.Code(d.Diff))
		}
	}
	return t
}

func (s *Snapshot) settingsTable() text.Table {
	t := text.Table{ID: "settings", Caption: "Settings", Columns: []string{"Setting", "Value"}}
	for _, setting := range s.Settings {
		t.Add(text.Value{Text: text.Plain(setting.Name)}, text.Code(setting.Value))
	}
	return t
}

// OperationsTable returns a line for each operation, for people to read, with the distance of their times from at.
func OperationsTable(operations []Operation, at time.Time) text.Table {
	t := text.Table{
		ID: "events", Caption: "Operations", Empty: "no entries in the journal", Optional: "Note",
		Columns: []string{"Time", "Ago", "Key", "Round", "Operation", "Cause", "Revision", "Attempt", "Result", "Took", "Error", "Note"},
	}
	for i := range operations {
		o := &operations[i]
		t.Add(text.Value{Text: text.Stamp(o.Started)}, text.Value{Text: text.Relative(o.Started, at)}, text.Object(o.Key),
			text.Count(o.Round), text.Code(o.Op), text.Code(string(o.Cause)), text.Count(o.Revision), text.Count(o.Attempt),
			o.outcome(), text.Value{Text: text.Duration(o.Took)}, text.Code(o.Error), text.Code(o.Note))
	}
	return t
}

// outcome returns the result, with "lost" or "merged" if that applies.
func (o *Operation) outcome() text.Value {
	v := text.Value{Text: text.Plain(string(o.Result)), Kind: text.KindGood}
	switch {
	case o.Result.Failed():
		v.Kind = text.KindBad
	case o.Result == ResultBlocked:
		v.Kind = text.KindWait
	}
	if o.Lost {
		v.Text += ", lost"
	}
	if o.Conflict {
		v.Text += ", merged"
	}
	return v
}
