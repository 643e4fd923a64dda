// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/text"
)

func TestDurationsAreShortAndRounded(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0 s":           0,
		"850 ns":        850,
		"1 µs":          1000,
		"999 µs":        999_400,
		"1 ms":          999_900,
		"12.3 ms":       12_345_678,
		"1.25 s":        1250 * time.Millisecond,
		"59.9 s":        59_940 * time.Millisecond,
		"1 min":         59_960 * time.Millisecond,
		"3 min 12 s":    3*time.Minute + 12*time.Second,
		"1 h":           time.Hour - 400*time.Millisecond,
		"5 h 3 min":     5*time.Hour + 3*time.Minute + 4*time.Second,
		"2 d":           48*time.Hour - 10*time.Second,
		"2 d 4 h":       52 * time.Hour,
		"-12 ms":        -12 * time.Millisecond,
		"106751 d 23 h": math.MaxInt64,
	} {
		require.Equal(t, want, text.Duration(d), "%d", d)
	}
}

func TestRelativeTimesAreShort(t *testing.T) {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.FixedZone("somewhere", 3600))
	for want, at := range map[string]time.Time{
		"now":       now.Add(400 * time.Microsecond),
		"12 ms ago": now.Add(-12_345 * time.Microsecond),
		"4.2 s ago": now.Add(-4234 * time.Millisecond),
		"12 s ago":  now.Add(-12_345 * time.Millisecond),
		"in 4 s":    now.Add(4 * time.Second),
		"in 1 min":  now.Add(59_600 * time.Millisecond),
	} {
		require.Equal(t, want, text.Relative(at, now))
	}
	require.Equal(t, "2026-11-21T01:59:48.000Z (12 s ago)", text.When(now.Add(-12*time.Second), now))
}

func TestPrintableTextIsUnchanged(t *testing.T) {
	require.Equal(t, "größe", text.Plain("größe"))
	require.Equal(t, `say "a" \x1b`, text.Printable("say \"a\" \x1b"))
	require.Equal(t, `"no end`, text.Unquote(`"no end`))
}

func TestCutTextShowsHowMuchWasLeftOut(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("é", 32), strings.Repeat("x", 1024), strings.Repeat("é", 1<<20), strings.Repeat("\xa9", 100)} {
		for _, most := range []int{64, 65, 1024} {
			cut := text.Cut(s, most)
			require.LessOrEqual(t, len(cut), most)
			if len(s) <= most {
				require.Equal(t, s, cut)
				continue
			}
			at, left := strings.LastIndex(cut, "... ("), 0
			_, err := fmt.Sscanf(cut[at:], "... (%d bytes left out)", &left)
			require.NoError(t, err)
			require.Equal(t, len(s), at+left)
			require.Equal(t, utf8.ValidString(s), utf8.ValidString(cut))
		}
	}
}

func TestFirstKeysAreInOrder(t *testing.T) {
	of := map[string]int{"c": 1, "a": 2, "d": 3, "b": 4}
	require.Equal(t, []string{"a", "b", "c"}, text.FirstKeys(of, 3))
	require.Equal(t, []string{"a", "b", "c", "d"}, text.FirstKeys(of, 5))
	require.Empty(t, text.FirstKeys(of, 0))
}

func TestTablesCutLongCellsButFieldsDoNot(t *testing.T) {
	long := strings.Repeat("é", 400)
	var report text.Report
	report.Field("error", text.Code(long))
	report.Field("row", text.Value{Text: "none"})
	table := text.Table{Columns: []string{"Key", "Error", "Note"}, Optional: "Note"}
	table.Add(text.Object("a"), text.Code(long), text.Code(""))
	report.Tables = []text.Table{table, {Columns: []string{"None"}}, {Columns: []string{"None"}, Empty: "no rows"}}
	short := strings.Repeat("é", 130) + "... (540 bytes left out)"
	require.Equal(t, "  error   "+long+"\n  row     none\nKey   Error\na     "+short+"\nno rows\n", report.String())

	table.Add(text.Object("b"), text.Code(""), text.Code("x"))
	report = text.Report{Lead: text.Value{Text: "ready"}, Tables: []text.Table{table}}
	indent := strings.Repeat(" ", len([]rune(short))+2)
	require.Equal(t, "ready\nKey   Error"+indent[4:]+"Note\na     "+short+"\nb     -"+indent+"x\n", report.String())
	require.Equal(t, strings.Repeat("é", 150), text.Cell(strings.Repeat("é", 150)))
}

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
	table := text.Table{Columns: []string{"A", "B"}}
	table.Add(text.Code(s), text.Code(other))
	table.Add(text.Object(other), text.Code(s))
	report := text.Report{Tables: []text.Table{table}}
	out := report.String()
	require.Equal(t, 3, strings.Count(out, "\n"))
	for line := range strings.Lines(out) {
		require.False(t, strings.HasSuffix(line, " \n"), "%q", line)
	}
}
