// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package view

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Screen shows a table on a terminal and redraws it in place. Text that is written to it scrolls above the
// table, so that a log can share the terminal. It is safe for concurrent use.
type Screen struct {
	out    io.Writer
	size   func() Size
	colour bool

	mu    sync.Mutex
	model Model
	drawn []string // the lines on the terminal, the last ones above the cursor
	log   []byte   // the beginning of an incomplete line
}

// NewScreen returns a view that draws on out, a terminal whose size the function returns. Without colour it
// writes only cursor movements.
func NewScreen(out io.Writer, size func() Size, colour bool) *Screen {
	return &Screen{out: out, size: size, colour: colour}
}

// Show draws the table again.
func (s *Screen) Show(scene Scene) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model.Update(scene.Items, scene.Now)
	rows := s.model.Rows()
	done := 0
	for _, row := range rows {
		if row.Status == "Done" {
			done++
		}
	}
	header := fmt.Sprintf("%d of %d Done   %s", done, len(rows), scene.Title)
	lines := table(header, rows, scene.Notes, s.size(), scene.Now, s.colour)
	text := s.erase() + join(lines)
	s.drawn = lines
	_, err := io.WriteString(s.out, text)
	return err
}

// Write writes complete lines above the table, and keeps the rest for later.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, p...)
	end := bytes.LastIndexByte(s.log, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	lines := string(s.log[:end])
	s.log = append(s.log[:0], s.log[end:]...)
	if _, err := io.WriteString(s.out, s.erase()+lines+join(s.drawn)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// erase returns the codes that clear the table from the terminal and move the cursor to its beginning.
func (s *Screen) erase() string {
	if len(s.drawn) == 0 {
		return ""
	}
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", len(s.drawn))
}

func join(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
