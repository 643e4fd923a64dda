// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package demo

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/statekeel/statekeel/example/managed/api"
)

// wanted is the desired settings of the tunnels, by name.
type wanted map[string]api.Settings

// holds is the true state of the broker, and its audit.
type holds struct {
	tunnels map[string]api.Tunnel
	audit   map[string]api.Audit
}

// done returns the sum of a count over all tunnels.
func (h holds) done(of func(api.Audit) int) (sum int) {
	for _, a := range h.audit {
		sum += of(a)
	}
	return sum
}

// same reports whether the broker has exactly the desired tunnels.
func (h holds) same(w wanted) bool {
	return maps.EqualFunc(w, h.tunnels, func(want api.Settings, there api.Tunnel) bool { return want == there.Settings })
}

// check returns an error that names every difference: tunnels that are missing, differ, were leaked, or
// were created or deleted too often.
func (h holds) check(w wanted) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range h.names(w) {
		want, isWanted := w[name]
		there, exists := h.tunnels[name]
		switch {
		case isWanted && !exists:
			bad("%q is missing", name)
		case !isWanted && exists:
			bad("%q (%s) was leaked", name, there.ID)
		case isWanted && want != there.Settings:
			bad("%q is %+v, wanted %+v", name, there.Settings, want)
		}
		a, leaves := h.audit[name], 1
		if isWanted {
			leaves = 0
		}
		if a.Creates != 1+a.Lost {
			bad("%q was created %d times, and lost %d times", name, a.Creates, a.Lost)
		}
		if a.Deletes != leaves {
			bad("%q was deleted %d times, not %d", name, a.Deletes, leaves)
		}
	}
	return errors.Join(errs...)
}

// names returns the names that are desired or known to the broker, sorted.
func (h holds) names(w wanted) []string {
	all := map[string]bool{}
	for name := range w {
		all[name] = true
	}
	for name := range h.tunnels {
		all[name] = true
	}
	for name := range h.audit {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// print writes a table that compares the desired tunnels with the broker's.
func (h holds) print(out io.Writer, w wanted) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	line := func(cells ...any) { fmt.Fprintf(table, "  %v\t%v\t%v\t%v\t%v\t%v\t%v\t%v\n", cells...) }
	line("TUNNEL", "WANTED", "THE BROKER HOLDS", "CREATED", "ASKED AGAIN", "UPDATED", "LOST", "DELETED")
	for _, name := range h.names(w) {
		want, there := "-", "-"
		if settings, ok := w[name]; ok {
			want = describe(settings)
		}
		if t, ok := h.tunnels[name]; ok {
			there = describe(t.Settings) + " " + t.ID
		}
		a := h.audit[name]
		line(name, want, there, a.Creates, a.Repeats, a.Updates, a.Lost, a.Deletes)
	}
	return table.Flush()
}

func describe(s api.Settings) string {
	text := fmt.Sprintf("%s %d Mbit/s", s.Remote, s.Bandwidth)
	if s.Left {
		text += " left"
	}
	return text
}
