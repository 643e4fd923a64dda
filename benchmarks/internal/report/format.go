// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"math"
	"strconv"
	"strings"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// number renders v with three significant digits, and from 1000 on as a whole number with separated
// thousands. A value below half a millionth is 0.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a < 0.9995:
		return fraction(v)
	case a < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	}
}

// fraction renders a number below 1 without trailing zeros.
func fraction(v float64) string {
	if math.Abs(v) < 0.5e-6 {
		return "0"
	}
	leadingZeros := -int(math.Floor(math.Log10(math.Abs(v)))) - 1
	s := strconv.FormatFloat(v, 'f', min(leadingZeros+3, 6), 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// spread renders the range of a summary; "" if it has none.
func spread(s series.Summary) string {
	if s.Runs < 2 || number(s.Min) == number(s.Max) {
		return ""
	}
	return "(" + number(s.Min) + " … " + number(s.Max) + ")"
}

// figureText renders the median of a figure, marked if it is a lower bound.
func figureText(s series.Summary) string {
	switch {
	case s.Runs == 0:
		return "–"
	case s.AtLeast:
		return "≥ " + number(s.Median)
	default:
		return number(s.Median)
	}
}

// ratioText renders the median of a ratio of two figures, marked if it is a bound.
func ratioText(r *series.Result, of, to, metric string) string {
	s := r.Ratio(of, to, metric)
	if s.Runs == 0 {
		return "–"
	}
	switch a, b := r.Figure(of, metric).AtLeast, r.Figure(to, metric).AtLeast; {
	case a && b:
		return "?" // neither is known to be the smaller
	case a:
		return "≥ " + number(s.Median)
	case b:
		return "≤ " + number(s.Median)
	default:
		return number(s.Median)
	}
}

func direction(b workload.Better) string {
	switch b {
	case workload.Less:
		return "less is better"
	case workload.More:
		return "more is better"
	default:
		return "for information"
	}
}

// padRight pads s with spaces to a width counted in characters, not in bytes.
func padRight(s string, width int) string {
	return s + spaces(width-len([]rune(s)))
}

func padLeft(s string, width int) string {
	return spaces(width-len([]rune(s))) + s
}

func spaces(n int) string { return strings.Repeat(" ", max(0, n)) }

// wrapped breaks text at spaces into lines of at most width characters, each with an indentation. A longer
// word gets a line of its own.
func wrapped(text string, width int, indent string) string {
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if line != indent && len([]rune(line))+1+len([]rune(word)) > width {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}
