// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExcerptsAreInTheirFiles(t *testing.T) {
	root := projectRoot(t)
	for _, page := range pages(t, root) {
		problems, err := strangeExcerpts(root, page, read(t, root, page))
		require.NoError(t, err)
		assert.Empty(t, problems)
	}
}

// strangeExcerpts returns the blocks of a page that are marked with a language and a file, and that the file does not have
// as they are.
func strangeExcerpts(root, name, page string) (problems []string, err error) {
	blocks, err := split(name, page)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		if mark := strings.Fields(b.word); len(mark) == 2 {
			text, err := os.ReadFile(filepath.Join(root, mark[1]))
			if err != nil || b.Text == "" || !strings.Contains("\n"+string(text), "\n"+b.Text) {
				problems = append(problems, fmt.Sprintf("%s:%d: it is not in %s", name, b.Line, mark[1]))
			}
		}
	}
	return problems, nil
}
