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

func TestBlocksContinueTheFileBegunLast(t *testing.T) {
	programs, err := Parse("x.md", page(`# A page
'''go
// main.go
package main
'''
some words
'''go
func main() {}
'''
'''text
hello
'''
'''go
// main_test.go
package main
'''
'''sh
make
'''
'''go
// other/main.go
package main
'''
`))
	require.NoError(t, err)
	require.Len(t, programs, 2)

	first := programs[0]
	require.Equal(t, ".", first.Folder)
	require.Len(t, first.Files, 2)
	require.Equal(t, "main.go", first.Files[0].Name)
	require.Equal(t, []Block{
		{Line: 3, Text: "// main.go\npackage main\n", word: "go"},
		{Line: 8, Text: "func main() {}\n", word: "go"},
	}, first.Files[0].Blocks)
	require.Equal(t, "main_test.go", first.Files[1].Name)
	require.Equal(t, "hello\n", first.Output.Text)
	require.True(t, first.HasMain())
	require.True(t, first.HasTests())
	require.Equal(t, 3, first.Lines(), "lines with the name of a file do not count")

	other := programs[1]
	require.Equal(t, "other", other.Folder)
	require.Nil(t, other.Output)
	require.False(t, other.HasMain())
	require.False(t, other.HasTests())
}

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
