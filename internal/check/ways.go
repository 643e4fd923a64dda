// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package check

import "slices"

// Kinds of ways.
const (
	Listed    = "as listed"
	Back      = "via another state and back"
	Emptied   = "emptied at the end"
	Between   = "with the empty state between"
	Backwards = "backwards"
	Reverse   = "the keys in reverse"
	Squashed  = "squashed"
	Fresh     = "each state from empty"
)

// WayNames returns the kinds of ways.
func WayNames() []string {
	return []string{Listed, Back, Emptied, Between, Backwards, Reverse, Squashed, Fresh}
}

// Ways returns the ways through a number of states, without repetitions and without some kinds, the way as listed first:
//
//   - as listed, and each state from empty
//   - backwards
//   - with the keys in reverse
//   - with the empty state between
//   - all squashed into one
//   - to each state, via another one, and back
func Ways(states int, without ...string) [][]Step {
	var listed []Step
	for i := range states {
		listed = append(listed, Step{State: i})
	}
	var ways [][]Step
	add := func(kind string, way ...Step) {
		if !slices.Contains(without, kind) && !slices.ContainsFunc(ways, func(w []Step) bool { return slices.Equal(w, way) }) {
			ways = append(ways, way)
		}
	}
	add(Listed, listed...)
	for i := range listed {
		for j := range states {
			if j != i {
				add(Back, append(slices.Clone(listed[:i+1]), Step{State: j}, listed[i])...)
			}
		}
	}
	add(Emptied, append(slices.Clone(listed), Step{State: Empty})...)
	var between []Step
	for _, s := range listed {
		between = append(between, s, Step{State: Empty})
	}
	add(Between, between[:len(between)-1]...)
	backwards := slices.Clone(listed)
	slices.Reverse(backwards)
	add(Backwards, backwards...)
	add(Reverse, each(listed, func(s *Step) { s.Reversed = true })...)
	squashed := each(listed, func(s *Step) { s.Squashed = true })
	squashed[states-1].Squashed = false
	add(Squashed, squashed...)
	for _, s := range listed {
		add(Fresh, s)
	}
	return ways
}

func each(way []Step, change func(*Step)) []Step {
	changed := slices.Clone(way)
	for i := range changed {
		change(&changed[i])
	}
	return changed
}
