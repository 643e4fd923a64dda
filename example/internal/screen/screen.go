// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package screen shows lines on a terminal, and redraws them in place.
package screen

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Screen is a terminal. Text that is written to it scrolls above the lines, so that a log can share the
// terminal. It is safe for concurrent use.
type Screen struct {
	// Out is the terminal, Size the function that returns its size in characters; 0 is no limit.
	Out  io.Writer
	Size func() (width, height int)

	mu    sync.Mutex
	drawn []string // the lines on the terminal, the last ones above the cursor
	log   []byte   // the beginning of an incomplete line
}

// Show draws lines in place of those before, unless they are the same. Each is cut at the width of the terminal.
func (s *Screen) Show(lines []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, _ := s.Size()
	var draw []string
	for _, line := range lines {
		draw = append(draw, cut(line, width))
	}
	if slices.Equal(draw, s.drawn) {
		return nil
	}
	return s.draw("", draw)
}

// Write writes complete lines above those that are shown, and keeps the rest for later.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, p...)
	if end := bytes.LastIndexByte(s.log, '\n') + 1; end > 0 {
		text := string(s.log[:end])
		s.log = append(s.log[:0], s.log[end:]...)
		if err := s.draw(text, s.drawn); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// draw replaces the lines on the terminal by a text and other lines.
func (s *Screen) draw(text string, lines []string) error {
	if len(s.drawn) > 0 {
		text = fmt.Sprintf("\r\x1b[%dA\x1b[J", len(s.drawn)) + text
	}
	if s.drawn = lines; len(lines) > 0 {
		text += strings.Join(lines, "\n") + "\n"
	}
	_, err := io.WriteString(s.Out, text)
	return err
}

// cut shortens a line, since one that wraps would be two.
func cut(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}

// OneLine replaces the characters of a text that could move the cursor of a terminal.
func OneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return ' '
		}
		return c
	}, text)
}
