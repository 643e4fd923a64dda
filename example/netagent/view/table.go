// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package view

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/statekeel/statekeel/example/internal/screen"
	"github.com/statekeel/statekeel/example/netagent/desired"
)

// Table is a view that is redrawn in place.
type Table struct{ Screen *screen.Screen }

// Show draws the scene.
func (t *Table) Show(s Scene) error {
	_, height := t.Screen.Size()
	return t.Screen.Show(table(s, height))
}

// table returns the lines of a table of the items, below a header and above the notes. If it is higher than the
// terminal, the items that are Done are left out, and then others.
func table(s Scene, height int) []string {
	undone := slices.DeleteFunc(slices.Clone(s.Items), desired.Item.Settled)
	shown, omitted := s.Items, ""
	// Lines of other things: the header, the titles, the notes and the cursor.
	if space := height - 3 - len(s.Notes); height > 0 && len(shown) > space {
		shown = undone[:min(len(undone), max(space-1, 1))]
		omitted = fmt.Sprintf("and %d more", len(s.Items)-len(shown))
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %d Done   %s\n", len(s.Items)-len(undone), len(s.Items), s.Title)
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tNAME\tSTATUS\tSINCE\tERROR")
	for _, item := range shown {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n",
			item.Kind, screen.OneLine(item.Key), item.Status.Kind, age(item, s.Now), screen.OneLine(item.Status.GetError()))
	}
	_ = w.Flush() // a strings.Builder returns no error
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	if omitted != "" {
		lines = append(lines, omitted)
	}
	for _, note := range s.Notes {
		lines = append(lines, screen.OneLine(note))
	}
	return lines
}

// age returns for how long an item has had its status; nothing if that is not known.
func age(item desired.Item, now time.Time) string {
	if item.Status.UpdatedAt.IsZero() {
		return ""
	}
	return max(now.Sub(item.Status.UpdatedAt), 0).Truncate(time.Second).String()
}
