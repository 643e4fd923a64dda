// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxText bounds the bytes of one text on a page.
const maxText = 2000

// visible returns s with escapes for characters that are invisible or change the direction of the text.
// A text of more than maxText bytes is cut.
func visible(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i >= maxText {
			b.WriteString("…")
			break
		}
		switch {
		case r == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				fmt.Fprintf(&b, `\x%02x`, s[i])
				continue
			}
			b.WriteRune(r)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// number returns n with its digits in groups of three.
func number[N int | uint64](n N) string {
	digits := strconv.FormatUint(uint64(max(n, 0)), 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// span returns a duration as text in its two largest units.
func span(d time.Duration) string {
	d = max(d, 0)
	const day = 24 * time.Hour
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d m %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%d h %d m", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
}

// took returns a duration as text with three digits.
func took(d time.Duration) string {
	for unit := time.Duration(1); unit <= time.Second; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(time.Second).String()
}

// none is shown where there is no value.
const none = "–"

// since returns the time from t to now. It is none for the zero time.
func since(now, t time.Time) cell {
	if t.IsZero() {
		return cell{Text: none}
	}
	return cell{Text: span(now.Sub(t)) + " ago", Title: stamp(t)}
}

// until returns the time from now to t: "now" if t has passed, none for the zero time.
func until(now, t time.Time) cell {
	switch {
	case t.IsZero():
		return cell{Text: none}
	case t.Before(now):
		return cell{Text: "now", Title: stamp(t)}
	}
	return cell{Text: "in " + span(t.Sub(now)), Title: stamp(t)}
}

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// clock returns the time of day, with the full time in the tooltip.
func clock(t time.Time) cell {
	return cell{Text: t.Format("15:04:05.000"), Title: stamp(t), Kind: count}
}

// asOf returns the time of an answer's data.
func asOf(t time.Time) cell {
	return cell{Text: t.Format("2006-01-02 15:04:05 MST"), Title: stamp(t)}
}

func counted[N int | uint64](n N) cell { return cell{Text: number(n), Kind: count} }
