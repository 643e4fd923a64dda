// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"fmt"
	"strings"

	"github.com/statekeel/statekeel/internal/text"
)

// Plan is what a resync would do with the rows of now: see reconciler.Loop.Plan.
type Plan struct {
	// Reconciler is [ID.String].
	Reconciler string `json:"reconciler"`
	// Resync has what was found. Unlike in the record of a resync, the counts are of all rows, whatever their status,
	// except those that were never set to Pending. Error says that a resync would await approval, if all orphans were its
	// own (some may be deletions of rows, which need none), or that listed objects have no usable key. Differences has the
	// first thousand that were found, by kind and key.
	Resync
	// Reapplied counts those of the Equal rows that are applied all the same, because they are not Done: without
	// reconciler.Config.Equal, or since the reconciler no longer compares rows with its first listing. Adopted counts those
	// that are not Done, and become so without an operation: the first listing adopts them, or they have failed or are blocked,
	// and no retry or release comes before the resync.
	Reapplied int `json:"reapplied"`
	Adopted   int `json:"adopted"`
}

// Operations returns how many operations the plan has: zero if there is nothing to do.
func (p Plan) Operations() int { return p.Different + p.Missing + p.Orphan + p.Reapplied }

// Summary returns one line, without a newline: the operations by their reasons, or that there is nothing to do, and the
// error.
func (p Plan) Summary() string {
	parts := []string{}
	for _, part := range []struct {
		n    int
		what string
	}{{p.Different, Different}, {p.Missing, Missing}, {p.Orphan, Orphan}, {p.Reapplied, "equal and not Done"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	line := "nothing to do"
	if len(parts) > 0 {
		line = fmt.Sprintf("%d operation(s) to do: %s", p.Operations(), strings.Join(parts, ", "))
	}
	line += fmt.Sprintf("; %d equal", p.Equal)
	if p.Adopted > 0 {
		line += fmt.Sprintf(", %d of which become Done", p.Adopted)
	}
	if p.Error != "" {
		line += "; " + text.Printable(p.Error)
	}
	return line
}

// String returns the plan as lines for people to read: [Plan.Summary], the figures, and the differences as a table. Each
// line ends with a newline. Characters that are not printable are escaped.
func (p Plan) String() string {
	r := p.Report()
	return r.String()
}

// Report returns what String prints, as data.
func (p Plan) Report() text.Report {
	kind := text.KindGood
	if p.Operations() > 0 || p.Error != "" {
		kind = text.KindWork
	}
	r := text.Report{Lead: text.Value{Text: text.Plain(p.Reconciler) + ": " + p.Summary(), Kind: kind}}
	r.Field("listed", text.Value{Text: fmt.Sprintf("%d object(s) in %s, at %s", p.Listed, text.Duration(p.Took), text.Stamp(p.Started))})
	t := text.Table{ID: "plan", Caption: "Differences", Columns: []string{"Key", "Kind", "Row", "Difference"}}
	for _, d := range p.Differences {
		row := d.Status
		if row == "" && d.Kind != Orphan {
			row = "Done"
		}
		t.Add(text.Object(d.Key), text.Code(d.Kind), text.Code(row), text.Code(d.Diff))
	}
	r.Tables = []text.Table{t}
	if more := p.Different + p.Missing + p.Orphan - len(p.Differences); more > 0 {
		r.Field("not shown", text.Value{Text: fmt.Sprintf("%d further difference(s)", more)})
	}
	return r
}
