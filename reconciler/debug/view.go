// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

// view is a page as data. The template renders all of it; the script in the page updates the live parts.
type view struct {
	Title string
	// Trail links from the overview to this page, Tabs to the other pages of the reconciler.
	Trail []link
	Tabs  []link
	// Live is the address from which the script reads updates; empty if the page has no live parts.
	Live string
	// AsOf is the time of the data. Note is the result of a button.
	AsOf cell
	Note string

	// Lead is the most important sentence. Actions are the buttons; if they are Drastic they are
	// folded away.
	Lead    cell
	Actions []action
	Drastic bool
	Figures []figure
	// Lookup is the form for a key; nil if there is none.
	Lookup *lookup
	// Choices link to other lists of objects.
	Choices []link
	Tables  []table
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

// lookup is the form for a key, with its hidden fields.
type lookup struct {
	Hidden []field
}

type field struct{ Name, Value string }

// cell is a piece of text: a figure, or one cell of a table.
type cell struct {
	Text string `json:"text"`
	// Title is the tooltip.
	Title string `json:"title,omitempty"`
	Href  string `json:"href,omitempty"`
	Kind  kind   `json:"kind,omitempty"`
}

// kind is the look of a cell: a class of the style sheet. The text of the cell must be clear without it.
type kind string

const (
	good kind = "good"
	work kind = "work"
	wait kind = "wait"
	bad  kind = "bad"
	held kind = "held"
	// count is for numbers, which are aligned.
	count kind = "count"
	// code is for texts from outside the library, such as keys and errors.
	code kind = "code"
)

type figure struct {
	ID, Label string
	Value     cell
}

type table struct {
	// ID is the ID of a live table; empty if the table is not live.
	ID, Caption string
	Columns     []string
	Rows        [][]cell
	// Empty is the text that is shown if there are no rows.
	Empty string
}

// live has the new contents of the live parts, by the IDs of their elements.
type live struct {
	Cells map[string]cell     `json:"cells"`
	Rows  map[string][][]cell `json:"rows"`
}

func (v view) live() live {
	l := live{
		Cells: map[string]cell{"lead": v.Lead, "as-of": v.AsOf},
		Rows:  map[string][][]cell{},
	}
	for _, f := range v.Figures {
		l.Cells["figure-"+f.ID] = f.Value
	}
	for _, t := range v.Tables {
		if t.ID != "" {
			l.Rows["rows-"+t.ID] = listed(t.Rows)
		}
	}
	return l
}
