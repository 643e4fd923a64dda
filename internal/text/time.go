// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text

import (
	"fmt"
	"strconv"
	"time"
)

// Stamp returns a time as RFC 3339, rounded to milliseconds, in UTC.
func Stamp(t time.Time) string {
	return t.UTC().Round(time.Millisecond).Format("2006-01-02T15:04:05.000Z07:00")
}

// When returns a time as [Stamp] does, and its distance from now.
func When(t, now time.Time) string { return Stamp(t) + " (" + Relative(t, now) + ")" }

// Relative returns the distance of t from now: "12 s ago", "in 4 s"; "now" within half a millisecond.
func Relative(t, now time.Time) string {
	d := now.Sub(t)
	distance := d.Abs()
	switch {
	case distance >= 10*time.Second:
		distance = distance.Round(time.Second)
	case distance >= time.Second:
		distance = distance.Round(100 * time.Millisecond)
	default:
		distance = distance.Round(time.Millisecond)
	}
	switch {
	case distance == 0:
		return "now"
	case d < 0:
		return "in " + Duration(distance)
	}
	return Duration(distance) + " ago"
}

// Duration returns a duration with up to three digits, or in two units: "1.25 ms", "12.3 s", "3 min
// 12 s", "5 h 3 min", "2 d 4 h".
func Duration(d time.Duration) string {
	if d < 0 {
		return "-" + Duration(d.Abs())
	}
	if d == 0 {
		return "0 s"
	}
	for _, unit := range []struct {
		size  time.Duration
		limit float64
		name  string
	}{
		{time.Nanosecond, 999.5, "ns"}, {time.Microsecond, 999.5, "µs"},
		{time.Millisecond, 999.5, "ms"}, {time.Second, 59.95, "s"},
	} {
		if v := float64(d) / float64(unit.size); v < unit.limit {
			return strconv.FormatFloat(v, 'g', 3, 64) + " " + unit.name
		}
	}
	if r := d.Round(time.Second); r < time.Hour {
		return twoUnits(r, time.Minute, time.Second, "min", "s")
	}
	if r := d.Round(time.Minute); r < 48*time.Hour {
		return twoUnits(r, time.Hour, time.Minute, "h", "min")
	}
	return twoUnits(d.Round(time.Hour), 24*time.Hour, time.Hour, "d", "h")
}

func twoUnits(d, large, small time.Duration, largeName, smallName string) string {
	s := fmt.Sprintf("%d %s", d/large, largeName)
	if rest := d % large / small; rest > 0 {
		s += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return s
}
