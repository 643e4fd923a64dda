// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/statekeel/statekeel/reconciler/event"
)

// events returns the agent's table of events, as text.
func (t *teller) events(ctx context.Context) (string, error) {
	body, err := t.ask(ctx, "/events")
	if err != nil {
		return "", err
	}
	var rows []*event.Row
	if err := json.Unmarshal([]byte(body), &rows); err != nil {
		return "", fmt.Errorf("the agent's events: %w", err)
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(table, "  %s\t%s\t%s\tx%d\t%s\n", row.Name, row.Type, row.Reason, row.Count, row.Message)
	}
	err = table.Flush()
	return out.String(), err
}
