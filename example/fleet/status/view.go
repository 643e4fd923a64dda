// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Screen shows lines on a terminal, and redraws them in place.
type Screen struct {
	// Out is the terminal, Width the function that returns its width.
	Out   io.Writer
	Width func() int

	drawn []string
}

// Show draws the lines in place of those before, unless they are the same.
func (s *Screen) Show(lines []string) error {
	width := s.Width()
	var draw []string
	for _, line := range lines {
		draw = append(draw, cut(line, width))
	}
	if slices.Equal(draw, s.drawn) {
		return nil
	}
	var text strings.Builder
	if len(s.drawn) > 0 {
		fmt.Fprintf(&text, "\r\x1b[%dA\x1b[J", len(s.drawn))
	}
	for _, line := range draw {
		text.WriteString(line + "\n")
	}
	s.drawn = draw
	_, err := io.WriteString(s.Out, text.String())
	return err
}

// cut shortens a line, since one that wraps would be two.
func cut(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}

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
