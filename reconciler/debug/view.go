// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

// view is a page as data: the template renders it, and the script in the page renews
// what of it is live.
type view struct {
	Title string
	// Trail leads here from the overview, Tabs to the other pages of the reconciler.
	Trail []link
	Tabs  []link
	// Live is where the script asks for what is new; empty if the page does not change.
	Live string
	// AsOf is when this was so, Note what a button just did.
	AsOf cell
	Note string

	// Lead is the one thing to know, Actions what can be done about it.
	// Drastic ones are out of sight until they are asked for.
	Lead    cell
	Actions []action
	Drastic bool
	Figures []figure
	Plot    []strip
	// Lookup is the form that asks for a key; nil if there is none.
	Lookup *lookup
	// Choices are what else can be listed.
	Choices []link
	Tables  []table
	Next    *link
}

type link struct {
	Text, Href string
	// Current: this is the page that is shown.
	Current bool
}

// action is a button; Href is where it posts to.
type action struct {
	Text, Href string
}

// lookup is the form that asks for a key, with what goes along with it.
type lookup struct {
	Hidden []field
}

type field struct{ Name, Value string }

// cell is a piece of text: a figure, or one cell of a table.
type cell struct {
	Text string `json:"text"`
	// Title says more to who points at it.
	Title string `json:"title,omitempty"`
	Href  string `json:"href,omitempty"`
	Kind  kind   `json:"kind,omitempty"`
}

// kind is how a cell looks: a class of the style sheet. None says anything that the text
// does not say, too.
type kind string

const (
	good kind = "good"
	work kind = "work"
	wait kind = "wait"
	bad  kind = "bad"
	held kind = "held"
	// count is a number, aligned with others.
	count kind = "count"
	// code is what somebody else wrote: a key, an error.
	code kind = "code"
)

type figure struct {
	ID, Label string
	Value     cell
}

// strip is the plot of one figure over time.
type strip struct {
	ID, Label string
	Now, Most cell
	// Line and Area are the data of SVG paths, in a box of plotWidth by plotHeight.
	Line, Area string
}

type table struct {
	// ID is empty if the table is not live.
	ID, Caption string
	Columns     []string
	Rows        [][]cell
	// Empty is said in place of no rows.
	Empty string
}

// live is what the script puts in place, by the ID of the element.
type live struct {
	Cells map[string]cell     `json:"cells"`
	Paths map[string]string   `json:"paths"`
	Rows  map[string][][]cell `json:"rows"`
}

func (v view) live() live {
	l := live{
		Cells: map[string]cell{"lead": v.Lead, "as-of": v.AsOf},
		Paths: map[string]string{},
		Rows:  map[string][][]cell{},
	}
	for _, f := range v.Figures {
		l.Cells["figure-"+f.ID] = f.Value
	}
	for _, s := range v.Plot {
		l.Cells["now-"+s.ID], l.Cells["most-"+s.ID] = s.Now, s.Most
		l.Paths["line-"+s.ID], l.Paths["area-"+s.ID] = s.Line, s.Area
	}
	for _, t := range v.Tables {
		if t.ID != "" {
			l.Rows["rows-"+t.ID] = listed(t.Rows)
		}
	}
	return l
}
