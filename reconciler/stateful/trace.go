// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import "reflect"

// maxTried is how many different states are remembered that were tried since the last success.
// So many fail one after the other only if a row is changed again and again while its target
// is in trouble.
const maxTried = 32

// trace is what is remembered of one object: what the target may hold of it, whatever became
// of the row. It is touched by one operation at a time. There is one for each object, and it
// is kept small.
type trace[State any] struct {
	// text is the annotation that was written last, or else the first that was read, and
	// state what it says, if known.
	text  string
	state State
	// trying is what the attempt is to lead to, begun that it may have changed the target.
	trying       State
	known, begun bool
	// foreign: the row has had an annotation of another epoch, or of none.
	foreign bool
	// troubles are those of an object that has some; else nil.
	troubles *troubles[State]
}

// troubles are what a trace has of an object that fails.
type troubles[State any] struct {
	// tried is what attempts led to since the state was applied. None of them is known to
	// have come to its end. There are at most maxTried, and the nothing that startOver
	// leads to.
	tried []State
	// unreadable is the annotation that was complained of last.
	unreadable string
}

func (t *trace[State]) trouble() *troubles[State] {
	if t.troubles == nil {
		t.troubles = &troubles[State]{}
	}
	return t.troubles
}

// complain reports whether an annotation that cannot be read has not been complained of.
func (t *trace[State]) complain(text string) bool {
	said := t.troubles != nil && t.troubles.unreadable == text
	t.trouble().unreadable = text
	return !said
}

// settle moves an attempt that has not come to its end to those that were tried.
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

// full reports whether what is to be tried would be one state too many to remember.
func (t *trace[State]) full() bool {
	return t.troubles != nil && len(t.troubles.tried) >= maxTried && !t.troubles.has(&t.trying)
}

// emptied notes that the target has nothing, whatever the annotation says.
func (t *trace[State]) emptied() {
	var nothing State
	t.trying, t.begun = nothing, false
	t.trouble().tried = []State{nothing}
}

// end notes that the target has what was tried, and the row the annotation.
func (t *trace[State]) end(text string) {
	var none State
	t.text, t.state, t.known = text, t.trying, true
	t.trying, t.begun, t.troubles = none, false, nil
}

// others returns the states that the target may be in, or between, beside what the annotation
// says. same: that is the state of the trace.
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
