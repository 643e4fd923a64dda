// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"net/http"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// explain is the story of one object.
func (h *handler) explain(r *http.Request) (answer, error) {
	form := r.URL.Query()
	t, err := h.find(form)
	if err != nil {
		return answer{}, err
	}
	if !form.Has("key") {
		return answer{}, failf(http.StatusBadRequest, "no object is named: &key=KEY")
	}
	key := form.Get("key")
	e := t.Explain(r.Context(), key)

	v := t.page(visible(e.Key), "")
	v.Trail = append(v.Trail, link{Text: visible(key), Href: t.link("explain", "key", key), Current: true})
	v.Live = t.link("explain", "key", key, "format", "live")
	v.AsOf = asOf(e.At)
	v.Note = outcome(form)
	v.Lead = state(e.State)
	if e.Why != "" {
		v.Lead.Text += ": " + visible(e.Why)
	}
	v.Actions = h.objectButtons(t, key)
	v.Figures = story(t, e)
	v.Tables = []table{notes(e), events(t, e.Events, "Its latest operations, the latest first")}
	v.Next = &link{Text: "All of it that the journal has", Href: t.link("journal", "key", key)}
	return answer{data: e, view: v}, nil
}

// story is what is known of the object. All of it is always there, so that what comes to
// be known while somebody looks has its place.
func story(t target, e inspect.Explanation) []figure {
	text := func(s string) cell {
		if s == "" {
			return cell{Text: none}
		}
		return cell{Text: visible(s), Kind: code}
	}
	row := cell{Text: "not in the table"}
	if e.Found {
		row = cell{Text: visible(e.Status) + " at revision " + number(e.Revision)}
	}
	if e.Deleted {
		row.Text += ", to leave the target"
	}
	holder := cell{Text: none}
	if e.Holder != "" {
		holder = t.object(e.Holder)
	}
	return []figure{
		{"since", "In this state since", since(e.At, e.Since)},
		{"row", "Row", row},
		{"error", "Last error", text(e.Error)},
		{"attempts", "Failed in a row", alarming(e.Attempts, bad)},
		{"next", "Next attempt", until(e.At, e.Next)},
		{"last", "Last attempt", since(e.At, e.LastAttempt)},
		{"wanted", "Change was written", since(e.At, e.Wanted)},
		{"blocked-on", "Blocked on", text(e.BlockedOn)},
		{"ahead", "Ahead of it", counted(e.Ahead)},
		{"lane", "Lane", text(e.Lane)},
		{"group", "Group", text(e.Group)},
		{"holder", "Its group works on", holder},
	}
}

// notes are what holds of the whole reconciler and matters to the object.
func notes(e inspect.Explanation) table {
	list := table{ID: "notes", Caption: "Of the whole reconciler", Columns: []string{"Note"}, Empty: "Nothing that matters to it."}
	for _, note := range e.Notes {
		list.Rows = append(list.Rows, []cell{{Text: visible(note)}})
	}
	return list
}
