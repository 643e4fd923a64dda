// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/statekeel/statekeel/internal/bounded"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// statuses are what [inspect.ObjectQuery].Status may be.
var statuses = []string{"Pending", "Refreshing", "Done", "Error", "Blocked", "Unset", "Deleted"}

func (c *commands) objects() *spec {
	return &spec{
		name:    "reconciler/objects",
		summary: "List objects with their states, the longest unwritten first",
		args:    []string{argName},
		flags: func(fs *pflag.FlagSet) {
			fs.String("status", "", "Only those with this status: "+strings.Join(statuses, ", "))
			fs.Int("limit", 0, "How many, at most 1000; 0 is 50")
			fs.String("after", "", "Go on after this page, as the one before said")
		},
		values: map[string][]string{"status": statuses},
		detail: []string{
			"A page of the table's rows, or with --status=Deleted of the deletions that are not carried out. If there are more, the last line has the command for the next page. A page may be short, as only so many rows are looked at for one, and it has at most 1 MiB of JSON. A table cuts long texts: reconciler/explain NAME KEY has them in full.",
			"",
			"Example:",
			"> reconciler/objects routes --status=Error --limit=10",
		},
		run: listObjects,
	}
}

func listObjects(ctx context.Context, in *input) (output, error) {
	limit, err := in.number("limit")
	if err != nil {
		return output{}, err
	}
	q := inspect.ObjectQuery{Status: in.text("status"), After: in.text("after"), Limit: limit}
	known := func(status string) bool { return strings.EqualFold(status, q.Status) }
	if q.Status != "" && !slices.ContainsFunc(statuses, known) {
		return output{}, fmt.Errorf("--status is %q, must be one of %s", q.Status, strings.Join(statuses, ", "))
	}
	page, err := bounded.Objects(ctx, in.reconciler, q)
	if err != nil {
		return output{}, err
	}
	return output{page, func() string { return pageText(in, q, page) }}, nil
}

func pageText(in *input, q inspect.ObjectQuery, page inspect.ObjectPage) string {
	now := time.Now()
	var t text.Table
	t.Row("Key", "Status", "State", "Since", "Failures", "Next attempt", "Revision", "Blocked on", "Error")
	for _, o := range page.Objects {
		t.Row(keyName(o.Key), orDash(o.Status), orDash(string(o.State)), stamp(o.Since, now),
			strconv.Itoa(o.Attempts), stamp(o.Next, now), strconv.FormatUint(o.Revision, 10), orDash(o.BlockedOn), cellText(o.Error))
	}
	var out strings.Builder
	t.Append(&out, "")
	if page.Next != "" {
		fmt.Fprintf(&out, "more: reconciler/objects %s", shellWord(keyName(text.Plain(in.reconciler.ID().String()))))
		if q.Status != "" {
			fmt.Fprintf(&out, " --status=%s", q.Status)
		}
		if q.Limit != 0 {
			fmt.Fprintf(&out, " --limit=%d", q.Limit)
		}
		fmt.Fprintf(&out, " --after=%s\n", shellWord(keyName(page.Next)))
	}
	return out.String()
}
