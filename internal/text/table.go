// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text

import (
	"strings"
	"unicode/utf8"
)

// Table is lines of cells, in columns that are as wide as their widest cell. The zero
// value is empty and ready for use.
type Table struct {
	rows [][]string
}

// Row adds a line. Every line has as many cells as the first, the header. The cells are
// printable: hostile ones have been through [Plain].
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// Append writes the table, each line behind an indentation, with three spaces between
// columns and none at the end of a line.
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
		line := indent
		for i, cell := range row {
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+3)
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

// Fields is a list of names and values, one a line, the values below each other.
type Fields struct {
	lines [][2]string
}

// Add adds a line.
func (f *Fields) Add(name, value string) { f.lines = append(f.lines, [2]string{name, value}) }

// Append writes the list, indented by two spaces.
func (f *Fields) Append(out *strings.Builder) {
	var t Table
	for _, line := range f.lines {
		t.Row(line[0], line[1])
	}
	t.Append(out, "  ")
}
