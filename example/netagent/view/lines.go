// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/statekeel/statekeel/example/internal/screen"
)

// Lines is a view with a line for each change: a new object, another status or error, and a deleted object.
type Lines struct {
	out io.Writer
	// shown has what was said last of each object, by kind and key.
	shown map[string]string
}

// NewLines returns a view that writes lines to out.
func NewLines(out io.Writer) *Lines { return &Lines{out: out} }

// lineTime has milliseconds, so that the order of dependent changes is visible.
const lineTime = "2006-01-02T15:04:05.000Z07:00"

// Show writes the changes since the last call.
func (l *Lines) Show(s Scene) error {
	var b strings.Builder
	shown := make(map[string]string, len(s.Items))
	for _, item := range s.Items {
		object, said := fmt.Sprintf("%-7s %s", item.Kind, screen.OneLine(item.Key)), item.Status.Kind.String()
		if reason := item.Status.GetError(); reason != "" {
			said += ": " + screen.OneLine(reason)
		}
		if l.shown[object] != said {
			since := item.Status.UpdatedAt
			if since.IsZero() { // the reconciler does not know it, or not yet
				since = s.Now
			}
			fmt.Fprintln(&b, since.Format(lineTime), object, said)
		}
		shown[object] = said
		delete(l.shown, object)
	}
	var deleted []string
	for object := range l.shown {
		deleted = append(deleted, fmt.Sprintln(s.Now.Format(lineTime), object, "Deleted"))
	}
	slices.Sort(deleted)
	b.WriteString(strings.Join(deleted, ""))
	l.shown = shown
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(l.out, b.String())
	return err
}
