// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is a list of lines with cells, in columns as wide as their widest cell. The zero value is an
// empty table.
type Table struct {
	rows [][]string
	// whole: long cells are not cut.
	whole bool
}

// Row adds a line. The first line is the header; every line has as many cells. The cells must be
// printable: use [Plain] for texts that may be hostile. A long cell is cut, see [Cell].
func (t *Table) Row(cells ...string) {
	row := slices.Clone(cells)
	for i := range row {
		if !t.whole {
			row[i] = Cell(row[i])
		}
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
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.rows {
		// Empty cells at the end are not padded: one long cell in the last column would pad every
		// line.
		for len(row) > 0 && row[len(row)-1] == "" {
			row = row[:len(row)-1]
		}
		line := indent
		for i, cell := range row {
			if i > 0 {
				line += strings.Repeat(" ", widths[i-1]-utf8.RuneCountInString(row[i-1])+3)
			}
			line += cell
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
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
type Fields struct {
	lines [][2]string
}

// Add adds a line.
func (f *Fields) Add(name, value string) { f.lines = append(f.lines, [2]string{name, value}) }

// Append writes the list, indented by two spaces.
func (f *Fields) Append(out *strings.Builder) {
	t := Table{whole: true}
	for _, line := range f.lines {
		t.Row(line[0], line[1])
	}
	t.Append(out, "  ")
}
