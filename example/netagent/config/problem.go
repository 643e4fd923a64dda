// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Pos is a position in a file. Lines and columns count from 1. Line is zero if only the file is known,
// Column is zero if only the line is.
type Pos struct {
	File         string
	Line, Column int
}

// String returns "file:line:column", without the unknown parts.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is one error in a file, with its position.
type Problem struct {
	Pos
	Message string
}

// Error returns "file:line:column: message".
func (p Problem) Error() string { return p.Pos.String() + ": " + p.Message }

// Problems lists the errors in a file, in the order of its lines: the first maxProblems that were found, and
// a last one that says that there are more. It is the error type of [Parse], [State.Check] and the ParseLink
// family; an empty Problems is never returned as an error.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// A file of a megabyte can have 300,000 problems, since an alias of three bytes repeats them, and each can
// quote a text of half a megabyte.
const (
	maxProblems = 100
	maxMessage  = 1 << 10 // bytes
)

// addf adds a problem, unless the list is full or the object has no position because it is not from a file.
func (ps *Problems) addf(pos Pos, format string, args ...any) {
	if pos.Line == 0 || ps.full() {
		return
	}
	*ps = append(*ps, Problem{Pos: pos, Message: cut(fmt.Sprintf(format, args...))})
}

// cut returns a message of at most maxMessage bytes, and a sign that there is more.
func cut(message string) string {
	if len(message) > maxMessage {
		return strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	return message
}

// full reports whether there are more problems than are listed.
func (ps Problems) full() bool { return len(ps) > maxProblems }

// err returns ps in the order of the lines, or nil if there is no problem.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if ps.full() {
		ps[maxProblems] = Problem{Pos: ps[maxProblems-1].Pos, Message: fmt.Sprintf("more problems follow; only %d are listed", maxProblems)}
	}
	return ps
}
