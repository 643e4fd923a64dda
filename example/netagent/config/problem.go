// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a file. Lines and columns count from 1; a Line of zero means
// that only the file is known, and a Column of zero that only the line is.
type Pos struct {
	File         string
	Line, Column int
}

// String returns "file:line:column", leaving out what is not known.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is one thing that is wrong, and where.
type Problem struct {
	Pos
	Message string
}

// Error returns "file:line:column: message".
func (p Problem) Error() string { return p.Pos.String() + ": " + p.Message }

// Problems is everything that is wrong with a file, in the order of its lines.
// It is the error of [Parse] and of the ParseLink family; an empty Problems is
// never returned as an error.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

func (ps *Problems) addf(pos Pos, format string, args ...any) {
	*ps = append(*ps, Problem{Pos: pos, Message: fmt.Sprintf(format, args...)})
}

// err returns ps in the order of the lines, or nil when there is no problem.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return ps
}
