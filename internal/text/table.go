// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Table is a list of lines with cells, in columns as wide as their widest cell. The zero value is an
// empty table.
type Table struct{ rows [][]string }

// Row adds a line. The first line is the header; every line has as many cells. The cells must be
// printable: use [Plain] for texts that may be hostile. A long cell is cut, see [Cell].
func (t *Table) Row(cells ...string) {
	row := slices.Clone(cells)
	for i := range row {
		row[i] = Cell(row[i])
	}
	t.rows = append(t.rows, row)
}

// maxCell bounds the bytes of a cell.
const maxCell = 300

// Cell returns a text cut to the size of a table's cell, see [Cut].
func Cell(s string) string { return Cut(s, maxCell) }

// Append writes the table, with indent before each line and three spaces between columns. Lines do
// not end in spaces.
func (t *Table) Append(out *strings.Builder, indent string) {
	var aligned strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 3, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(w, indent+strings.Join(row, "\t"))
	}
	_ = w.Flush()
	for line := range strings.Lines(aligned.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// String returns the table without an indentation.
func (t *Table) String() string {
	var out strings.Builder
	t.Append(&out, "")
	return out.String()
}

// Fields is a list of names and values, one on each line, with the values aligned. Values are not
// cut.
type Fields struct{ table Table }

// Add adds a line.
func (f *Fields) Add(name, value string) {
	f.table.rows = append(f.table.rows, []string{name, value})
}

// Append writes the list, indented by two spaces.
func (f *Fields) Append(out *strings.Builder) { f.table.Append(out, "  ") }
