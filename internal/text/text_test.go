// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

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

// hostile are names that may do harm on a terminal.
var hostile = []string{
	"", " ", "a  b", "a\tb", "a\nb", "\x1b[31mred\x1b[0m", "\x00", "\x7f", "\u009b2J", "\xff\xfe", `"quoted"`, `"`,
	"\u202eback", "zero\u200bwidth", "\U000e0041tag", "<img src=x onerror=alert(1)>", "größe", "10.0.0.0/24",
}

func TestRenderedTextCanBeReadBack(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range hostile {
		require.Equal(t, name, text.Unquote(text.Plain(name)))
		require.False(t, seen[text.Plain(name)], "%q is rendered like another name", name)
		seen[text.Plain(name)] = true
		if name == "\xff\xfe" {
			continue // JSON has no such string
		}
		inJSON, err := text.JSON(name)
		require.NoError(t, err)
		var back string
		require.NoError(t, json.Unmarshal([]byte(inJSON), &back))
		require.Equal(t, name, back)
	}
	require.Equal(t, "größe", text.Plain("größe"), "printable text is unchanged")
	require.Equal(t, `say "a" \x1b`, text.Printable("say \"a\" \x1b"))
	require.Equal(t, `"no end`, text.Unquote(`"no end`))
}

func TestTablesAreAligned(t *testing.T) {
	var table text.Table
	table.Row("Key", "Größe", "Error")
	table.Row("a", "1", "")
	table.Row("long key", "12", "refused")
	require.Equal(t, ""+
		"Key        Größe   Error\n"+
		"a          1\n"+
		"long key   12      refused\n", table.String())
}
