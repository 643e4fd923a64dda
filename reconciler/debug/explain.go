// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"net/http"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// explain returns the page of one object.
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
	v.Figures = objectFigures(t, e)
	v.Tables = []table{notes(e), events(t, e.Operations, "Its latest operations, the latest first")}
	if _, ok := t.loop(); ok {
		v.Next = &link{Text: "All its operations in the journal", Href: t.link("journal", "key", key)}
	}
	return answer{data: e, view: v}, nil
}

// objectFigures returns the figures of an explanation. They are all there even if they are empty, because
// the script can only update figures that the page has.
func objectFigures(t target, e inspect.Explanation) []figure {
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
		row.Text += ", waits for its deletion"
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
		{"holder", "Held up by", holder},
	}
}

// notes returns the table of facts about the whole reconciler that matter to the object.
func notes(e inspect.Explanation) table {
	list := table{ID: "notes", Caption: "Notes about the reconciler", Columns: []string{"Note"}, Empty: "None."}
	for _, note := range e.Notes {
		list.Rows = append(list.Rows, []cell{{Text: visible(note)}})
	}
	return list
}
