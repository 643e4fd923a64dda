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

// statuses are the values of [inspect.ObjectQuery].Status.
var statuses = []string{"Pending", "Refreshing", "Done", "Error", "Blocked", "Unset", "Deleted"}

func (c *commands) objects() *spec {
	return &spec{
		name:    "reconciler/objects",
		summary: "List objects with their states, those written last at the end",
		args:    []string{argName},
		flags: func(fs *pflag.FlagSet) {
			fs.String("status", "", "List only objects with this status: "+strings.Join(statuses, ", "))
			fs.Int("limit", 0, "Number of objects, at most 1000; 0 means 50")
			fs.String("after", "", "List the next page; the last line of a page has the value")
		},
		values: map[string][]string{"status": statuses},
		detail: []string{
			"Prints one page of the table's rows, or with --status=Deleted of the deletions that are not carried out. If there are more, the last line has the command for the next page. About 20,000 rows, or objects that are not applied, are read for a page, and it has at most 1 MiB of JSON, so a page may be short, or empty, and still have a next one. The table cuts long texts; reconciler/explain NAME KEY prints them in full.",
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
