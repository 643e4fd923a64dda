// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"fmt"
	"io"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
)

// textWidth is the width of the text, which fits into an ordinary terminal.
const textWidth = 100

// Text writes the result of one workload for people to read.
func Text(w io.Writer, r *series.Result) error {
	out := &writer{to: w}
	first := r.Contenders[0]
	out.printf("%s\n%s", r.Workload.Name, wrapped(r.Workload.About, textWidth, "  "))
	caption := "median (min … max)"
	if len(r.Contenders) > 1 {
		caption += fmt.Sprintf("; ratio: %s divided by the other, run by run", first)
	}
	out.printf("  %s\n", caption)
	for _, m := range r.Metrics {
		out.printf("\n  %s, %s (%s)\n", m.Name, m.Unit, direction(m.Better))
		for _, name := range r.Contenders {
			s := r.Figure(name, m.Name)
			line := "    " + padRight(name, 24) + padLeft(figureText(s), 12) + "  " + padRight(spread(s), 26)
			if name != first {
				line += "ratio " + ratioText(r, first, name, m.Name) + " " + spread(r.Ratio(first, name, m.Name))
			}
			out.printf("%s\n", trimRight(line))
		}
	}
	out.printf("\n")
	return out.err
}

func trimRight(s string) string {
	for len(s) > 0 && s[len(s)-1] == ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// writer writes until the first error and keeps that error.
type writer struct {
	to  io.Writer
	err error
}

func (w *writer) printf(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.to, format, args...)
	}
}
