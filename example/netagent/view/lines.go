// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package view

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Lines is a view with a line for each change.
type Lines struct {
	out   io.Writer
	model Model
}

// NewLines returns a view that writes lines to out.
func NewLines(out io.Writer) *Lines { return &Lines{out: out} }

// Show writes the changes since the last call.
func (l *Lines) Show(s Scene) error {
	var b strings.Builder
	for _, change := range l.model.Update(s.Items, s.Now) {
		b.WriteString(line(change))
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(l.out, b.String())
	return err
}

// lineTime has milliseconds, so that the order of dependent changes is visible.
const lineTime = "2006-01-02T15:04:05.000Z07:00"

// line returns a change as time, kind, key and status, and the error if there is one.
func line(c Change) string {
	text := fmt.Sprintf("%s %-7s %s %s", c.Since.Format(lineTime), c.Kind, c.Key, c.Status)
	if c.Error != "" {
		text += ": " + c.Error
	}
	return text + "\n"
}

// ago returns a duration in the one unit that is easiest to read.
func ago(since, now time.Time) string {
	d := max(now.Sub(since), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
