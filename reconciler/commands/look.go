// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/statekeel/statekeel/internal/bounded"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func (c *commands) list() *spec {
	return &spec{
		name:    "reconciler",
		summary: "List the reconcilers with their figures",
		detail: []string{
			"One line for each reconciler: the rows of its table, the objects that fail or are blocked, and the changes that it has not read yet (unseen). The summary names the problems, or says that all rows are applied. Long error texts are cut, also in JSON.",
			"",
			"Next commands:",
			"- reconciler/show NAME: all figures of one reconciler",
			"- reconciler/objects NAME --status=Error: the objects that fail",
			"- reconciler/explain NAME KEY: why an object is not reconciled",
			"- reconciler/journal NAME: the latest operations",
			"",
			"Example:",
			"> reconciler",
			"Name     Table    Rows   Failing   Blocked   Unseen   Summary",
			"routes   routes   120    1         0         0        running: 1 failing",
		},
		run: func(ctx context.Context, _ *input) (output, error) {
			all := snapshots(ctx, c.registry.All())
			for i := range all {
				bounded.CutTexts(&all[i])
			}
			return output{all, func() string { return listText(all) }}, nil
		},
	}
}

// snapshots returns the snapshots of all reconcilers. It reads them concurrently: each one that is busy
// takes 100 ms.
func snapshots(ctx context.Context, all []inspect.Controller) []inspect.Snapshot {
	out := make([]inspect.Snapshot, len(all))
	var asked sync.WaitGroup
	for i, r := range all {
		asked.Go(func() { out[i] = r.Snapshot(ctx) })
	}
	asked.Wait()
	return out
}

func listText(all []inspect.Snapshot) string {
	if len(all) == 0 {
		return "no reconcilers\n"
	}
	var t text.Table
	t.Row("Name", "Table", "Rows", "Failing", "Blocked", "Unseen", "Summary")
	for _, s := range all {
		t.Row(text.Plain(s.ID.String()), text.Plain(s.ID.Table),
			strconv.Itoa(s.Objects), strconv.Itoa(s.Failing), strconv.Itoa(s.Blocked), strconv.Itoa(s.Unseen),
			s.Summary())
	}
	return t.String()
}

func (c *commands) show() *spec {
	return &spec{
		name:    "reconciler/show",
		summary: "Show the condition, figures and settings of a reconciler",
		args:    []string{argName},
		detail: []string{
			"Condition, progress, objects by state, the latest classes of errors with an example of each, stuck operations, paused objects, and the settings in force.",
			"",
			"A reconciler that is in an operation may not answer. After 100 ms the command then shows the figures of the end of its last round, with the condition busy.",
			"",
			"Example:",
			"> reconciler/show routes",
		},
		run: func(ctx context.Context, in *input) (output, error) {
			s := in.reconciler.Snapshot(ctx)
			return output{s, s.String}, nil
		},
	}
}

func (c *commands) resync() *spec {
	return &spec{
		name:    "reconciler/resync",
		summary: "Show what the last comparison with the target found",
		args:    []string{argName},
		detail: []string{
			"A resync lists the target and compares it with the table. Equal objects are left alone, rows that are different or missing in the target are applied again (repair), and orphans, which no row wants, are deleted. Prints when the last one began, how long it took, the four numbers, and the first differences.",
			"",
			"reconciler/prune asks for a resync now.",
			"",
			"Example:",
			"> reconciler/resync routes",
		},
		run: func(ctx context.Context, in *input) (output, error) {
			s := in.reconciler.Snapshot(ctx)
			if !s.Lists {
				return output{}, fmt.Errorf("%s does not list its target (Config.Lister is not set): there are no resyncs", in.named())
			}
			r := resyncOf{Reconciler: s.Reconciler, Listing: s.Listing, Resync: s.Resync}
			return output{r, r.String}, nil
		},
	}
}

// resyncOf is the output of reconciler/resync.
type resyncOf struct {
	Reconciler string          `json:"reconciler"`
	Listing    time.Time       `json:"listing,omitzero"`
	Resync     *inspect.Resync `json:"resync"`
}

func (r resyncOf) String() string {
	out := "there was no resync yet\n"
	if r.Resync != nil {
		out = r.Resync.String()
	}
	if !r.Listing.IsZero() {
		out += "the target is being listed since " + text.Stamp(r.Listing) + "\n"
	}
	return out
}

func (c *commands) explain() *spec {
	return &spec{
		name:    "reconciler/explain",
		summary: "Explain why an object is, or is not, reconciled",
		args:    []string{argName, argKey},
		detail: []string{
			"Prints the state and its reason, then times, error, next attempt and what the object waits for, then its latest operations. An object that is neither in the table nor tracked is absent, which is not an error of the command.",
			"",
			"Example:",
			"> reconciler/explain routes 10.0.0.0/24",
		},
		run: func(ctx context.Context, in *input) (output, error) {
			e := in.reconciler.Explain(ctx, in.key)
			return output{e, e.String}, nil
		},
	}
}

// stamp returns a time with its distance from now, or "-" for the zero time.
func stamp(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return text.When(t, now)
}

// cellText returns a text for the last column of a table; it may be empty there.
func cellText(s string) string {
	if s == "" {
		return ""
	}
	return text.Plain(s)
}

// orDash returns a text for a column of a table, "-" for an empty one.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return text.Plain(s)
}
