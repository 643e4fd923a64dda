// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/*.txt; commit only differences that you understand")

// TestTranscripts plays the transcripts in testdata. Each is a page of prose and blocks. A block
// has statements, a line of dashes, and the core's exact answer. The statements are explained in
// transcript_commands_test.go. How a round is played is in transcript_play_test.go.
//
// The same calls with the same seed give the same plans, byte for byte (DESIGN section 3).
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			page, err := os.ReadFile(file)
			require.NoError(t, err)
			played, err := play(t, string(page))
			require.NoError(t, err, "in %s", file)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(played), 0o644))
				return
			}
			require.Equal(t, string(page), played, "run go test -update and review the difference")
		})
	}
}

const dashes = "----"

// play returns a page with the core's current answers in place of the recorded ones.
func play(t testingT, page string) (string, error) {
	s := &stage{t: t}
	var out strings.Builder
	line := 1
	for i, paragraph := range strings.Split(strings.TrimRight(page, "\n"), "\n\n") {
		if i > 0 {
			out.WriteString("\n\n")
		}
		statements, _, isBlock := strings.Cut(paragraph+"\n", "\n"+dashes+"\n")
		if !isBlock {
			if !isProse(paragraph) {
				return "", fmt.Errorf("line %d: statements without a line of %s below", line, dashes)
			}
			out.WriteString(paragraph)
		} else {
			answer, err := s.block(statements)
			if err != nil {
				return "", fmt.Errorf("block at line %d: %w", line, err)
			}
			out.WriteString(statements + "\n" + dashes + "\n" + strings.TrimRight(answer, "\n"))
		}
		line += strings.Count(paragraph, "\n") + 2
	}
	out.WriteString("\n")
	return out.String(), nil
}

// isProse reports whether a paragraph has only comments.
func isProse(paragraph string) bool {
	for _, line := range strings.Split(paragraph, "\n") {
		if !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// block runs the statements of a block, and returns the core's answer.
func (s *stage) block(statements string) (string, error) {
	s.answer.Reset()
	for _, line := range strings.Split(statements, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.statement(line); err != nil {
			return "", fmt.Errorf("%q: %w", line, err)
		}
	}
	if err := s.playRound(); err != nil {
		return "", err
	}
	if s.core == nil {
		return "", fmt.Errorf("no core: a page begins with a core statement")
	}
	s.describe()
	return s.answer.String(), nil
}
