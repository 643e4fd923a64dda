// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The words for what became of a name.
const (
	same    = "same"
	adapted = "adapted"
	leftOut = "left out"
	isNew   = "new"
)

// nothing stands where there is no name.
const nothing = "–"

// row is a row of a table: what became of some names.
type row struct {
	line int
	// there are the names that programs come with, here the ones in this module, with
	// their package: "stepper.Stepper.Run".
	there, here []string
	how, notes  string
}

// quoted is a name in a cell.
var quoted = regexp.MustCompile("`([^`]+)`")

// parse returns the rows of a page by the title of the section of the second level that they
// are in, and everything that is wrong with them.
func parse(page string) (rows map[string][]row, problems []string) {
	rows = map[string][]row{}
	section, line := "", 0
	for text := range strings.Lines(page) {
		line++
		text = strings.TrimSpace(text)
		if title, ok := strings.CutPrefix(text, "## "); ok {
			section = title
			rows[section] = nil
		}
		if !strings.HasPrefix(text, "| `") && !strings.HasPrefix(text, "| "+nothing) {
			continue
		}
		r, problem := parseRow(text)
		if r.line = line; problem != "" {
			problems = append(problems, fmt.Sprintf("line %d: %s", line, problem))
			continue
		}
		rows[section] = append(rows[section], r)
	}
	return rows, problems
}

// parseRow reads a row, and returns what is wrong with it.
func parseRow(text string) (r row, problem string) {
	cells := strings.Split(strings.Trim(text, "|"), "|")
	if len(cells) != 4 {
		return r, fmt.Sprintf("it has %d cells, want 4", len(cells))
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	r.there, r.here, r.how, r.notes = names(cells[0]), names(cells[1]), cells[2], cells[3]
	return r, r.check()
}

// check returns what is wrong with a row by itself.
func (r row) check() string {
	switch {
	case !slices.Contains([]string{same, adapted, leftOut, isNew}, r.how):
		return fmt.Sprintf("%q says nothing of a name", r.how)
	case (len(r.there) == 0) != (r.how == isNew):
		return "a name is new if there is none there"
	case (len(r.here) == 0) != (r.how == leftOut):
		return "a name is left out if there is none here"
	case r.how == same && !slices.EqualFunc(r.there, r.here, isSame):
		return fmt.Sprintf("%q is not the same name as %q", r.here, r.there)
	case r.how != same && r.notes == "":
		return fmt.Sprintf("it does not say why %q is %s", slices.Concat(r.there, r.here), r.how)
	}
	return ""
}

// isSame reports whether a name here is the one there, but for its package.
func isSame(there, here string) bool {
	_, name, _ := strings.Cut(here, ".")
	return name == there
}

// names returns the names of a cell. "`Status`: `Kind`, `Error`" are a type and what it has.
func names(cell string) []string {
	owner, members, grouped := strings.Cut(cell, ": ")
	var out []string
	for _, match := range quoted.FindAllStringSubmatch(owner, -1) {
		out = append(out, match[1])
	}
	if grouped && len(out) == 1 {
		for _, match := range quoted.FindAllStringSubmatch(members, -1) {
			out = append(out, out[0]+"."+match[1])
		}
	}
	return out
}
