// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// maxCell bounds the bytes of a text in a list.
const maxCell = 300

// Cell returns a text cut to the size of a table's cell, see [Cut].
func Cell(s string) string { return Cut(s, maxCell) }

// Table is a list of rows. Every row has a value for each column.
type Table struct {
	// ID names the table for programs, Caption for people. Empty is shown if there are no rows; without
	// it [Report.String] leaves the table out then.
	ID, Caption, Empty string
	Columns            []string
	// Optional is a column that [Report.String] leaves out while no row has a value in it.
	Optional string
	Rows     [][]Value
}

// Add adds a row. A long text is cut, see [Cell].
func (t *Table) Add(row ...Value) {
	for i := range row {
		row[i].Text = Cell(row[i].Text)
	}
	t.Rows = append(t.Rows, row)
}

// Without returns a copy of the table that does not have a column.
func (t *Table) Without(column string) Table {
	out := *t
	at := slices.Index(t.Columns, column)
	out.Columns = slices.Delete(slices.Clone(t.Columns), at, at+1)
	out.Rows = nil
	for _, row := range t.Rows {
		out.Rows = append(out.Rows, slices.Delete(slices.Clone(row), at, at+1))
	}
	return out
}

// append writes the table for a terminal: the columns, and then a line for each row.
func (t *Table) append(out *strings.Builder) {
	if len(t.Rows) == 0 {
		if t.Empty != "" {
			out.WriteString(t.Empty + "\n")
		}
		return
	}
	shown := *t
	if at := slices.Index(t.Columns, t.Optional); at >= 0 {
		some := func(row []Value) bool { return row[at].Text != None }
		if !slices.ContainsFunc(t.Rows, some) {
			shown = t.Without(t.Optional)
		}
	}
	lines := [][]string{shown.Columns}
	for _, row := range shown.Rows {
		lines = append(lines, texts(row))
	}
	align(out, "", lines)
}

// texts returns the texts of a row. The last one is empty instead of [None].
func texts(row []Value) (out []string) {
	for _, v := range row {
		out = append(out, v.Text)
	}
	if last := len(out) - 1; last >= 0 && out[last] == None {
		out[last] = ""
	}
	return out
}

// align writes lines with an indentation and three spaces between columns. Lines do not end in spaces.
func align(out *strings.Builder, indent string, lines [][]string) {
	var aligned strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 3, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(w, indent+strings.Join(line, "\t"))
	}
	_ = w.Flush()
	for line := range strings.Lines(aligned.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}
