// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"reflect"
	"sync"

	"github.com/statekeel/statekeel/reconciler/object"
)

// trace is what is remembered of one object: what the target may hold of it, whatever became
// of the row. It is touched by one operation at a time.
type trace[State any] struct {
	// text is the annotation that was written last, or else the first that was read, and
	// state what it says. known: there is one.
	text  string
	state State
	known bool
	// unreadable is the annotation that was complained of last.
	unreadable string

	// trying is what an attempt leads to that has begun, and tried what others led to
	// since the state was applied. None of them is known to have come to its end.
	trying State
	begun  bool
	tried  []State
}

// begin notes that an attempt is about to change the target. It is noted before, so that a
// panic makes no difference.
func (t *trace[State]) begin(to State) {
	t.trying, t.begun = to, true
}

// settle moves an attempt that has not come to its end to those that were tried.
func (t *trace[State]) settle() {
	if !t.begun {
		return
	}
	var none State
	to := t.trying
	t.trying, t.begun = none, false
	for _, old := range t.tried {
		if reflect.DeepEqual(old, to) {
			return
		}
	}
	t.tried = append(t.tried, to)
}

// end notes that the target has the state, and the row the annotation.
func (t *trace[State]) end(text string, state State) {
	var none State
	t.text, t.state, t.known = text, state, true
	t.trying, t.begun, t.tried = none, false, nil
}

// others returns the states that the target may be in, or between, beside previous, which is
// what the annotation says. same: that is the state of the trace.
func (t *trace[State]) others(same bool) []State {
	t.settle()
	if same || !t.known {
		return t.tried
	}
	return append([]State{t.state}, t.tried...)
}

// traces are those of all objects.
type traces[State any] struct {
	mu    sync.Mutex
	byKey map[object.Key]*trace[State]
}

// of returns the trace of an object, which is made if there is none.
func (m *traces[State]) of(key object.Key) *trace[State] {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.byKey[key]
	if t == nil {
		if m.byKey == nil {
			m.byKey = map[object.Key]*trace[State]{}
		}
		t = &trace[State]{}
		m.byKey[key] = t
	}
	return t
}

// forget is for an object of which the target has nothing.
func (m *traces[State]) forget(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}
