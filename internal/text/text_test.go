// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text_test

import (
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

func TestPrintableTextIsUnchanged(t *testing.T) {
	require.Equal(t, "größe", text.Plain("größe"))
	require.Equal(t, `say "a" \x1b`, text.Printable("say \"a\" \x1b"))
	require.Equal(t, `"no end`, text.Unquote(`"no end`))
}
