// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"time"

	"github.com/statekeel/statekeel/internal/text"
)

// view is a page as data. The template renders all of it; the script in the page updates the live parts.
type view struct {
	Title string
	// Trail links from the overview to this page, Tabs to the other pages of the reconciler.
	Trail []link
	Tabs  []link
	// Live is the address from which the script reads updates; empty if the page has no live parts.
	Live string
	// AsOf is the time of the data. Note is the result of a button.
	AsOf string
	Note string

	// Lead is the most important sentence. Actions are the buttons, which act on ActOn; if they are Drastic they
	// are folded away.
	Lead    text.Value
	Actions []action
	Drastic bool
	ActOn   string
	// Lookup has the hidden fields of the form for a key; nil if there is no form.
	Lookup []field
	// Choices link to other lists of the same kind.
	Choices []link
	Tables  []text.Table
	Next    *link
}

type link struct {
	Text, Href string
	// Current is true if the link leads to this page.
	Current bool
}

// action is a button that posts to Href.
type action struct {
	Text, Href string
}

type field struct{ Name, Value string }

// show puts a report at a time into the page. Its fields, if there are any, are the first table.
func (v *view) show(at time.Time, r text.Report) {
	v.AsOf = text.Stamp(at)
	v.Lead = r.Lead
	if len(r.Fields) > 0 {
		v.Tables = []text.Table{{ID: "fields", Caption: "Figures", Columns: []string{"Name", "Value"}, Rows: r.Fields}}
	}
	v.Tables = append(v.Tables, r.Tables...)
}

// live has the new contents of the live parts, by the IDs of their elements.
type live struct {
	Cells map[string]text.Value     `json:"cells"`
	Rows  map[string][][]text.Value `json:"rows"`
}

func (v *view) live() live {
	l := live{
		Cells: map[string]text.Value{"as-of": {Text: v.AsOf}},
		Rows:  map[string][][]text.Value{},
	}
	if v.Lead.Text != "" {
		l.Cells["lead"] = v.Lead
	}
	for _, t := range v.Tables {
		l.Rows["rows-"+t.ID] = append([][]text.Value{}, t.Rows...) // [] in JSON, not null
	}
	return l
}
