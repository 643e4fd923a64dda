// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/text"
)

// hostile are names that may do harm on a terminal.
var hostile = []string{
	"", " ", "a  b", "a\tb", "a\nb", "\x1b[31mred\x1b[0m", "\x00", "\x7f", "\u009b2J", "\xff\xfe", `"quoted"`, `"`,
	"\u202eback", "zero\u200bwidth", "\U000e0041tag", "<img src=x onerror=alert(1)>", "größe", "10.0.0.0/24",
}

// FuzzTextIsCleaned renders texts. The results are printable, valid UTF-8 and of bounded length. A
// text of Plain can be read back, and different texts have different results of Plain.
func FuzzTextIsCleaned(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, s, other string) {
		plain, printable, name := text.Plain(s), text.Printable(s), text.Name(s)
		for _, out := range []string{plain, printable, name} {
			require.True(t, utf8.ValidString(out), "%q", out)
			require.Equal(t, -1, strings.IndexFunc(out, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", out)
			// The longest escapes: \x1b of one byte, \ufeff of two, \U000e0041 of four; and two
			// quotes.
			require.LessOrEqual(t, len(out), 5*len(s)+2)
		}
		require.Equal(t, printable, text.Printable(printable))
		require.Equal(t, name, text.Name(name))
		require.NotEmpty(t, plain)

		require.Equal(t, s, text.Unquote(plain))
		if text.Plain(other) == plain {
			require.Equal(t, s, other)
		}
		if !strings.HasPrefix(plain, `"`) {
			require.Equal(t, s, plain)
			require.NotContains(t, plain, "  ", "columns are told apart by spaces")
			require.Equal(t, strings.TrimSpace(plain), plain)
		}
		requireInJSON(t, s)
		requireInTable(t, s, other)
	})
}

// requireInJSON requires that the JSON of s is printable and decodes to s, with U+FFFD in place of
// each byte that is not UTF-8.
func requireInJSON(t *testing.T, s string) {
	out, err := text.JSON(map[string]string{s: s})
	require.NoError(t, err)
	require.LessOrEqual(t, len(out), 12*len(s)+20)
	for _, r := range out {
		require.True(t, r == '\n' || unicode.IsPrint(r), "%q", out)
	}
	var back map[string]string
	require.NoError(t, json.Unmarshal([]byte(out), &back))
	// Each such byte becomes one U+FFFD.
	want := string([]rune(s))
	for _, value := range back {
		require.Equal(t, want, value)
	}
	require.Len(t, back, 1)
}

// requireInTable requires that a table has a line for each row, whatever its cells contain.
func requireInTable(t *testing.T, s, other string) {
	var table text.Table
	table.Row("A", "B")
	table.Row(text.Plain(s), text.Plain(other))
	table.Row(text.Plain(other), text.Plain(s))
	out := table.String()
	require.Equal(t, 3, strings.Count(out, "\n"))
	for line := range strings.Lines(out) {
		require.False(t, strings.HasSuffix(line, " \n"), "%q", line)
	}
}
