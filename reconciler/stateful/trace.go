// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import "reflect"

// maxTried is the number of different states that are remembered as tried since the last success.
// It is reached only if a row is changed again and again while its operations fail.
const maxTried = 32

// trace is the memory of one object: the states that the target may have of it, whatever happened
// to the row. There is one for each object, so it is kept small. One operation at a time uses it.
type trace[State any] struct {
	// text is the annotation that was written last, or else the first that was read. state is its
	// value. Both are valid if known is set.
	text  string
	state State
	// trying is the state that the attempt leads to. begun reports that the attempt may have
	// changed the target.
	trying       State
	known, begun bool
	// foreign: the row has had an annotation without this process's epoch. unclear: the last call of
	// StoreState has failed, so the store may have either text.
	foreign, unclear bool
	// troubles is nil for an object without failures.
	troubles *troubles[State]
}

// troubles is the part of a trace that only a failing object has.
type troubles[State any] struct {
	// tried are the states of unfinished attempts since the last success. There are at most
	// maxTried, and the zero State of startOver.
	tried []State
	// unreadable is the last annotation that was reported as unreadable.
	unreadable string
}

func (t *trace[State]) trouble() *troubles[State] {
	if t.troubles == nil {
		t.troubles = &troubles[State]{}
	}
	return t.troubles
}

// complain records an annotation that cannot be read, and reports whether it was not recorded
// before.
func (t *trace[State]) complain(text string) bool {
	said := t.troubles != nil && t.troubles.unreadable == text
	t.trouble().unreadable = text
	return !said
}

// settle adds the state of an unfinished attempt to those that were tried.
func (t *trace[State]) settle() {
	if !t.begun {
		return
	}
	t.begun = false
	if troubles := t.trouble(); !troubles.has(&t.trying) {
		troubles.tried = append(troubles.tried, t.trying)
	}
}

func (t *troubles[State]) has(state *State) bool {
	for i := range t.tried {
		if reflect.DeepEqual(&t.tried[i], state) {
			return true
		}
	}
	return false
}

// full reports whether the state to try is one more than can be remembered.
func (t *trace[State]) full() bool {
	return t.troubles != nil && len(t.troubles.tried) >= maxTried && !t.troubles.has(&t.trying)
}

// emptied records that the target has nothing, whatever the annotation says.
func (t *trace[State]) emptied() {
	var nothing State
	t.trying, t.begun = nothing, false
	t.trouble().tried = []State{nothing}
}

// end records that the target has the state that was tried, and the row the annotation.
func (t *trace[State]) end(text string) {
	var none State
	t.text, t.state, t.known = text, t.trying, true
	t.trying, t.begun, t.troubles = none, false, nil
}

// others returns the states that the target may be in, completely or in part, beside that of the
// annotation. same reports that the annotation is that of the trace.
func (t *trace[State]) others(same bool) []State {
	t.settle()
	var tried []State
	if t.troubles != nil {
		tried = t.troubles.tried
	}
	if same || !t.known {
		return tried
	}
	return append([]State{t.state}, tried...)
}
