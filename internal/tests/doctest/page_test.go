// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package doctest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// page replaces the three quotes in a literal with fences.
func page(text string) string { return strings.ReplaceAll(text, "'''", fence) }

func TestMistakesNamePageAndLine(t *testing.T) {
	for _, c := range []struct{ name, page, want string }{
		{"fence is not closed", "a\n'''go\npackage main\n", "x.md:2: block is not closed"},
		{"Go without a file", "'''go\nvar x = 1\n'''\n", "x.md:2: Go that belongs to no file"},
		{"not Go", "'''go\n// main.go\nnonsense here\n'''\n", "x.md:2: not Go"},
		{"not formatted", "'''go\n// main.go\npackage   main\n'''\n", "x.md:2: gofmt would change"},
		{"another mark", "'''golang\nx\n'''\n", `x.md:2: block is marked "golang"`},
		{"output without a program", "'''text\nhello\n'''\n", "x.md:2: text that does not follow a program directly"},
		{"output after a shell block", "'''go\n// main.go\npackage main\n'''\n'''sh\nx\n'''\n'''text\nhello\n'''\n",
			"x.md:9: text that does not follow a program directly"},
		{"two outputs", "'''go\n// main.go\npackage main\n'''\n'''text\na\n'''\n'''go\nvar x = 1\n'''\n'''text\nb\n'''\n",
			"x.md:12: second output of a program; the first is in line 6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("x.md", page(c.page))
			require.ErrorContains(t, err, c.want)
		})
	}
}
