// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"io"
	"slices"
	"strings"
	"time"
)

// Log shows lines that are new, with the time.
type Log struct {
	Out io.Writer

	shown []string
}

// Show writes the lines that were not in the last call.
func (l *Log) Show(lines []string) error {
	var text strings.Builder
	for _, line := range lines {
		if !slices.Contains(l.shown, line) {
			text.WriteString(time.Now().Format(time.TimeOnly) + "  " + line + "\n")
		}
	}
	l.shown = slices.Clone(lines)
	_, err := io.WriteString(l.Out, text.String())
	return err
}
