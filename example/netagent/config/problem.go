// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
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

// Problem is one error in a file, with its position: that of the object. For a syntax error it is the line that the
// YAML package names, if it names one.
type Problem struct {
	Pos
	Message string
}

// Error returns "file:line:column: message".
func (p Problem) Error() string { return p.Pos.String() + ": " + p.Message }

// Problems lists the errors in a file, in the order of its lines: the first hundred that were found. It is
// the error type of [Parse], [State.Check] and the ParseLink family; an empty Problems is never returned as an
// error.
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

// full reports whether no more problems are listed.
func (ps Problems) full() bool { return len(ps) >= maxProblems }

// add adds what is wrong with the object at a position. The YAML package lists several errors, each with its line.
func (ps *Problems) add(pos Pos, err error) {
	wrong := []string{err.Error()}
	if several := (*yaml.TypeError)(nil); errors.As(err, &several) {
		wrong = several.Errors
	}
	for _, message := range wrong {
		at := pos
		if m := yamlLine.FindStringSubmatch(message); m != nil {
			message = m[2]
			if line, _ := strconv.Atoi(m[1]); line > 0 {
				at = Pos{File: pos.File, Line: line}
			}
		}
		if len(message) > maxMessage {
			message = strings.ToValidUTF8(message[:maxMessage], "") + "..."
		}
		if !ps.full() {
			*ps = append(*ps, Problem{Pos: at, Message: message})
		}
	}
}

var yamlLine = regexp.MustCompile(`(?s)^(?:yaml: )?(?:line (\d+): )?(.*)`)

// err returns ps in the order of the lines, or nil if there is no problem.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return ps
}
