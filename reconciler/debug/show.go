// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"net/http"
	"slices"
	"strings"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// show returns the page of one reconciler.
func (h *handler) show(r *http.Request) (answer, error) {
	t, err := h.find(r.URL.Query())
	if err != nil {
		return answer{}, err
	}
	s := t.Snapshot(r.Context())
	v := t.page(visible(s.ID.String()), "show")
	v.Live = t.link("show", "format", "live")
	v.AsOf = asOf(s.At)
	v.Note = outcome(r.URL.Query())
	v.Lead = lead(s)
	v.Actions, v.Drastic = h.buttons(t, s), true
	v.Lookup = &lookup{Hidden: t.query}
	v.Figures = figures(s)
	v.Tables = []table{hindrances(s), classes(t, s), states(t, s), settings(s)}
	if found, ok := resync(t, s); ok {
		v.Tables = slices.Insert(v.Tables, 1, found)
	}
	return answer{data: map[string]any{"snapshot": s}, view: v}, nil
}

// lead returns the condition with its reasons.
func lead(s inspect.Snapshot) cell {
	c := condition(s)
	var more []string
	if s.Busy != "" {
		more = append(more, "it is in "+visible(s.Busy)+"; the figures are from its last round")
	}
	if !s.Initialized {
		text := "the table is not initialised"
		if len(s.Waiting) > 0 {
			text += ": it waits for " + visible(strings.Join(s.Waiting, ", "))
		}
		more = append(more, text)
	}
	if !s.Started.IsZero() {
		c.Title = "started " + stamp(s.Started)
	}
	if len(more) > 0 {
		c.Text += ": " + strings.Join(more, "; ")
	}
	return c
}

func condition(s inspect.Snapshot) cell {
	c := cell{Text: string(s.Condition), Kind: wait}
	switch s.Condition {
	case inspect.ConditionRunning:
		c.Kind = good
	case inspect.ConditionPaused:
		c.Kind = held
	case inspect.ConditionStopped:
		c.Kind = bad
	}
	return c
}

func figures(s inspect.Snapshot) []figure {
	low := cell{Text: none}
	if s.LowWatermark > 0 {
		low = counted(s.LowWatermark)
	}
	return []figure{
		{"objects", "Objects", counted(s.Objects)},
		{"pending", "Pending", counted(pending(s))},
		{"in-flight", "In flight", counted(inFlight(s))},
		{"failing", "Failing", alarming(s.Failing, bad)},
		{"blocked", "Blocked", alarming(s.Blocked, wait)},
		{"behind", "Behind by", behind(s)},
		{"revision", "Table at revision", counted(s.Revision)},
		{"attempted", "Attempted up to", counted(s.Attempted)},
		{"low", "Oldest not applied", low},
		{"prune", "Next prune", until(s.At, s.NextPrune)},
	}
}

// pending returns the number of objects and changes that wait for an operation.
func pending(s inspect.Snapshot) int {
	n := s.Unseen
	for _, state := range []inspect.State{
		inspect.StateReady, inspect.StateQueued, inspect.StateUnseen, inspect.StateHeld, inspect.StatePaused,
	} {
		n += inState(s.States, state)
	}
	return n
}

func inFlight(s inspect.Snapshot) int { return inState(s.States, inspect.StateInFlight) }

func inState(states []metrics.StateCount, want inspect.State) int {
	for _, s := range states {
		if s.State == string(want) {
			return s.Count
		}
	}
	return 0
}

// alarming returns a number with a kind, or as a plain count if it is zero.
func alarming(n int, k kind) cell {
	if n == 0 {
		k = count
	}
	return cell{Text: number(n), Kind: k}
}

// behind returns the age of the oldest unapplied change.
func behind(s inspect.Snapshot) cell {
	if s.OldestUnapplied.IsZero() {
		return cell{Text: none}
	}
	return cell{Text: span(s.At.Sub(s.OldestUnapplied)), Title: "written " + stamp(s.OldestUnapplied), Kind: count}
}

// hindrances returns the table of problems that affect more than one object.
func hindrances(s inspect.Snapshot) table {
	list := table{ID: "hindrances", Caption: "What holds work back", Columns: []string{"What", "Which"}, Empty: "Nothing."}
	add := func(what, which string, k kind) {
		list.Rows = append(list.Rows, []cell{{Text: what, Kind: k}, {Text: visible(which), Kind: code}})
	}
	if s.Breaker != "" {
		add("breaker open", s.Breaker, bad)
	}
	for _, o := range s.Stuck {
		add("stuck operation", o, bad)
	}
	if s.PruneFailure != "" {
		add("prune", s.PruneFailure, bad)
	}
	if s.AwaitsListing {
		add("first listing", "no operation is called before the target was listed", wait)
	}
	for _, w := range s.Waiting {
		add("initialiser", w, wait)
	}
	return list
}

// resync returns the table of what the last resync found; false if there was none.
func resync(t target, s inspect.Snapshot) (list table, ok bool) {
	if s.Resync == nil {
		return list, false
	}
	list = table{
		ID: "resync", Caption: "Last resync, " + stamp(s.Resync.Started) + ": " + visible(s.Resync.Summary()),
		Columns: []string{"Object", "Kind", "Difference"}, Empty: "Everything was equal.",
	}
	for _, d := range s.Resync.Differences {
		list.Rows = append(list.Rows, []cell{t.object(d.Key), {Text: d.Kind}, {Text: visible(d.Diff), Kind: code}})
	}
	return list, true
}

func classes(t target, s inspect.Snapshot) table {
	list := table{ID: "errors", Caption: "Errors by class", Columns: []string{"Class", "Count", "Last", "Example", "Object"}, Empty: "No operation has failed."}
	for _, e := range s.Errors {
		list.Rows = append(list.Rows, []cell{
			{Text: visible(e.Class), Kind: code}, counted(e.Count), since(s.At, e.Last),
			{Text: visible(e.Example), Kind: code}, t.object(e.Key),
		})
	}
	return list
}

// states returns the table of objects by state, with the ready ones by lane.
func states(t target, s inspect.Snapshot) table {
	list := table{ID: "states", Caption: "On the way", Columns: []string{"State", "Objects"}, Empty: "Nothing."}
	add := func(name cell, n int) {
		if n > 0 {
			list.Rows = append(list.Rows, []cell{name, counted(n)})
		}
	}
	add(cell{Text: "unseen changes", Title: "an estimate", Kind: wait}, s.Unseen)
	for _, c := range s.States {
		add(stateIn(t, c.State), c.Count)
	}
	for _, lane := range s.Lanes {
		add(cell{Text: "ready in lane " + visible(lane.State), Kind: work}, lane.Count)
	}
	return list
}

// stateIn returns a state with a link to the objects that may be in it: those with the same status.
func stateIn(t target, name string) cell {
	c := state(inspect.State(name))
	switch inspect.State(name) {
	case inspect.StateRetry, inspect.StateTerminal, inspect.StateTripped:
		c.Href = t.link("objects", "status", "Error")
	case inspect.StateBlocked:
		c.Href = t.link("objects", "status", "Blocked")
	}
	return c
}

// state returns the state of an object with its kind.
func state(s inspect.State) cell {
	c := cell{Text: visible(string(s))}
	switch s {
	case inspect.StateDone, inspect.StateRequeue:
		c.Kind = good
	case inspect.StateInFlight, inspect.StateReady:
		c.Kind = work
	case inspect.StateRetry, inspect.StateTerminal, inspect.StateStuck, inspect.StateTripped:
		c.Kind = bad
	case inspect.StateUnseen, inspect.StateQueued, inspect.StateHeld, inspect.StateBlocked:
		c.Kind = wait
	case inspect.StatePaused:
		c.Kind = held
	}
	return c
}

func settings(s inspect.Snapshot) table {
	list := table{ID: "settings", Caption: "Settings", Columns: []string{"Name", "Value"}, Empty: "None."}
	for _, text := range s.Settings {
		list.Rows = append(list.Rows, []cell{{Text: visible(text.Name)}, {Text: visible(text.Value), Kind: code}})
	}
	return list
}
