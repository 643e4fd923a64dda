// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package view

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Size is the size of a terminal in characters.
type Size struct{ Width, Height int }

// minSize is the smallest size that is drawn; a smaller terminal wraps or scrolls.
var minSize = Size{Width: 40, Height: 8}

// The column titles.
var titles = [...]string{"KIND", "NAME", "STATUS", "SINCE", "ERROR"}

// colours are the escape sequences for the statuses.
var colours = map[string]string{
	"Done":    "\x1b[32m",
	"Error":   "\x1b[31m",
	"Blocked": "\x1b[35m",
	"Pending": "\x1b[33m",
}

const plain = "\x1b[0m"

// table returns the lines of a table of the rows, below a header and above the notes. It fits the terminal:
// lines are cut at its width, and if there are too many rows, those that are not Done stay and the others
// are counted.
func table(header string, rows []Row, notes []string, size Size, now time.Time, colour bool) []string {
	size.Width, size.Height = max(size.Width, minSize.Width), max(size.Height, minSize.Height)
	// One line is for the cursor, one for the header, one for the titles.
	notes = notes[:min(len(notes), size.Height-5)]
	shown, hidden := fit(rows, size.Height-3-len(notes))

	cells := [][len(titles)]string{titles}
	for _, row := range shown {
		cells = append(cells, [...]string{row.Kind, row.Key, row.Status, ago(row.Since, now), row.Error})
	}
	var widths [len(titles)]int
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	lines := []string{cut(header, size.Width)}
	for _, line := range cells {
		text := ""
		for i, cell := range line {
			text += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		text = cut(strings.TrimRight(text, " "), size.Width)
		if escape, known := colours[line[2]]; known && colour {
			text = strings.Replace(text, " "+line[2], " "+escape+line[2]+plain, 1)
		}
		lines = append(lines, text)
	}
	if hidden != "" {
		lines = append(lines, cut(hidden, size.Width))
	}
	for _, note := range notes {
		lines = append(lines, cut(note, size.Width))
	}
	return lines
}

// fit returns at most space rows, in order, and a line that counts the others, which is one of them.
func fit(rows []Row, space int) (shown []Row, hidden string) {
	if len(rows) <= space {
		return rows, ""
	}
	space--
	done := 0
	for _, row := range rows {
		if row.Status == "Done" {
			done++
		}
	}
	spare := space - (len(rows) - done) // lines for rows that are Done
	left, leftDone := 0, 0
	for _, row := range rows {
		isDone := row.Status == "Done"
		switch {
		case isDone && spare > 0:
			spare--
			shown = append(shown, row)
		case !isDone && len(shown) < space:
			shown = append(shown, row)
		default:
			left++
			if isDone {
				leftDone++
			}
		}
	}
	return shown, fmt.Sprintf("and %d more, %d of them Done", left, leftDone)
}

// cut shortens a line to a width.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
