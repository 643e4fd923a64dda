// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package check

import "slices"

// Ways returns the ways through a number of states, without repetitions, the way as listed first:
//
//   - as listed, and each state from empty
//   - backwards
//   - with the keys in reverse
//   - with the empty state between
//   - all squashed into one
//   - to each state, via another one, and back
func Ways(states int) [][]Step {
	var listed []Step
	for i := range states {
		listed = append(listed, Step{State: i})
	}
	var ways [][]Step
	add := func(way ...Step) {
		if !slices.ContainsFunc(ways, func(w []Step) bool { return slices.Equal(w, way) }) {
			ways = append(ways, way)
		}
	}
	add(listed...)
	for i := range listed {
		for j := range states {
			if j != i {
				add(append(slices.Clone(listed[:i+1]), Step{State: j}, listed[i])...)
			}
		}
	}
	add(append(slices.Clone(listed), Step{State: Empty})...)
	var between []Step
	for _, s := range listed {
		between = append(between, s, Step{State: Empty})
	}
	add(between[:len(between)-1]...)
	backwards := slices.Clone(listed)
	slices.Reverse(backwards)
	add(backwards...)
	add(each(listed, func(s *Step) { s.Reversed = true })...)
	squashed := each(listed, func(s *Step) { s.Squashed = true })
	squashed[states-1].Squashed = false
	add(squashed...)
	for _, s := range listed {
		add(s)
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
