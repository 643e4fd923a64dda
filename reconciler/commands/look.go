// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
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
		summary: "List the reconcilers and how they do",
		detail: []string{
			"A line for each: how many rows its table has, how many objects fail or are blocked, how many changes it has not looked at, and in the last column what is wrong, or that all is well. Long texts of errors are cut, also in JSON.",
			"",
			"To go on from here:",
			"- reconciler/show NAME: one of them in full",
			"- reconciler/objects NAME --status=Error: what fails",
			"- reconciler/explain NAME KEY: why an object is not reconciled",
			"- reconciler/journal NAME: what was done",
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

// snapshots asks all at once, since those that are busy take their time.
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
		summary: "Show how a reconciler does, and its settings",
		args:    []string{argName},
		detail: []string{
			"Condition, progress, rates over the last ten seconds, objects by state, the latest kinds of errors with an example of each, what is stuck, and the settings in force.",
			"",
			"A reconciler that is busy with an operation does not answer; after 100 ms its figures are shown as they were at the end of its last round.",
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

func (c *commands) explain() *spec {
	return &spec{
		name:    "reconciler/explain",
		summary: "Say why an object is, or is not, reconciled",
		args:    []string{argName, argKey},
		detail: []string{
			"First the state and why, then since when, which error, when the next attempt is due and what the object waits for, then its latest operations. An object that is neither in the table nor tracked is absent, which is no error.",
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

// stamp returns a time and how far it is from now, or "-" for none.
func stamp(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return text.When(t, now)
}

// cellText returns a text for the last column of a table, empty for none.
func cellText(s string) string {
	if s == "" {
		return ""
	}
	return text.Plain(s)
}

// orDash returns a text for a table, "-" for none.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return text.Plain(s)
}
