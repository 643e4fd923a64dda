// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func (c *commands) list() *spec {
	return &spec{
		name:    "reconciler",
		summary: "List the reconcilers with their figures",
		detail: []string{
			"One line for each reconciler: the rows of its table, the objects that fail or are blocked, and the changes that it has not read yet (unseen). The summary names the problems, or says that all rows are applied. Long error texts are cut, also in JSON. After them come the sources that fill tables, if there are any; not in JSON, which reconciler/show has for each.",
			"",
			"Next commands:",
			"- reconciler/show NAME: all figures of one reconciler",
			"- reconciler/objects NAME --status=Error: the objects that fail",
			"- reconciler/explain NAME KEY: why an object is not reconciled",
			"- reconciler/journal NAME: the latest operations",
		},
		examples: []string{"reconciler"},
		run: func(ctx context.Context, _ *input) (output, error) {
			all := operator.Snapshots(ctx, c.registry.All())
			tables := []text.Table{inspect.SnapshotsTable(all)}
			if sources := operator.Sources(c.registry); len(sources) > 0 {
				tables = append(tables, inspect.SourcesTable(sources))
			}
			return output{data: all, report: text.Report{Tables: tables}}, nil
		},
	}
}

func (c *commands) show() *spec {
	return &spec{
		name:    "reconciler/show",
		summary: "Show the condition, figures and settings of a reconciler, or the state of a source",
		args:    []string{argName},
		detail: []string{
			"Condition, progress, objects by state, the latest classes of errors with an example of each, stuck operations, paused objects, what the last resync found, and the settings in force.",
			"",
			"A resync lists the target and compares it with the table. Equal objects are left alone, rows that are different or missing in the target are applied again (repair), and orphans, which no row wants, are deleted. reconciler/prune asks for one.",
			"",
			"A reconciler that is in an operation may not answer. After 100 ms the command then shows the figures of the end of its last round, with the condition busy.",
			"",
			"With the name of a source (TABLE/SOURCE): what it rejects, and which deletions it holds until somebody approves them.",
		},
		examples: []string{"reconciler/show routes", "reconciler/show routes/files"},
		run: func(ctx context.Context, in *input) (output, error) {
			s := in.reconciler.Snapshot(ctx)
			return output{data: s, report: s.Report()}, nil
		},
		onSource: func(_ context.Context, source inspect.Source, _ *input) (output, error) {
			s := source.Snapshot()
			return output{data: s, report: s.Report(time.Now())}, nil
		},
	}
}

func (c *commands) explain() *spec {
	return &spec{
		name:    "reconciler/explain",
		summary: "Explain why an object is, or is not, reconciled",
		args:    []string{argName, argKey},
		detail: []string{
			"Prints the state and its reason, then times, error, next attempt and what the object waits for, then its latest operations. An object that is neither in the table nor tracked is absent, which is not an error of the command.",
		},
		examples: []string{"reconciler/explain routes 10.0.0.0/24"},
		run: func(ctx context.Context, in *input) (output, error) {
			e := in.reconciler.Explain(ctx, in.key[0])
			return output{data: e, report: e.Report()}, nil
		},
	}
}

func (c *commands) objects() *spec {
	return &spec{
		name:    "reconciler/objects",
		summary: "List objects with their states, those written last at the end",
		args:    []string{argName},
		flags: func(fs *pflag.FlagSet) {
			fs.String("status", "", "List only objects with this status: "+strings.Join(operator.Statuses, ", "))
			fs.Int("limit", 0, "Number of objects, at most 1000; 0 means 50")
			fs.String("after", "", "List the next page; the last line of a page has the value")
		},
		values: map[string][]string{"status": operator.Statuses},
		detail: []string{
			"Prints one page of the table's rows, or with --status=Deleted of the deletions that are not carried out. If there are more, the last line has the command for the next page. About 20,000 rows, or objects that are not applied, are read for a page, so a page may be short, or empty, and still have a next one. Long texts are cut; reconciler/explain NAME KEY prints them in full.",
		},
		examples: []string{"reconciler/objects routes --status=Error --limit=10"},
		run:      listObjects,
	}
}

func listObjects(ctx context.Context, in *input) (output, error) {
	limit, err := in.number("limit")
	if err != nil {
		return output{}, err
	}
	q := inspect.ObjectQuery{Status: in.text("status"), After: in.text("after"), Limit: limit}
	if !operator.IsStatus(q.Status) {
		return output{}, fmt.Errorf("--status is %q, must be one of %s", q.Status, strings.Join(operator.Statuses, ", "))
	}
	page, err := operator.Objects(ctx, in.reconciler, q)
	if err != nil {
		return output{}, err
	}
	out := output{data: page, report: text.Report{Tables: []text.Table{inspect.ObjectsTable(page.Objects, time.Now())}}}
	if page.Next != "" {
		out.last = nextPage(in, q, page.Next)
	}
	return out, nil
}

// nextPage returns the line with the command for the next page.
func nextPage(in *input, q inspect.ObjectQuery, after string) string {
	line := "more: reconciler/objects " + shellWord(keyName(text.Plain(in.reconciler.ID().String())))
	if q.Status != "" {
		line += " --status=" + q.Status
	}
	if q.Limit != 0 {
		line += fmt.Sprintf(" --limit=%d", q.Limit)
	}
	return line + " --after=" + shellWord(keyName(after)) + "\n"
}
