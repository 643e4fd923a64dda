// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
)

// maxTried is the number of different states that are remembered as tried since the last success.
// It is reached only if a row is changed again and again while its operations fail.
const maxTried = 32

// memory is what the process remembers of one object: the states that the target may have of it,
// whatever happened to the row. There is one for each object, so it is kept small. One operation at a
// time uses it.
type memory[State any] struct {
	// read: the annotation and the store were read, or must not be read any more.
	read bool
	// states are those that the target may be in, completely or in part. The first is that of the last
	// success, or else the one that was read, and text is its annotation, empty if there is none. The
	// others were tried since. wanted is the state that the attempt leads to.
	states []State
	text   string
	wanted State
	// foreign: the row has had an annotation without this process's epoch. unclear: the store may
	// have another text.
	foreign, unclear bool
	// trouble is the error of decoding what was read; nil after a success.
	trouble error
}

// of returns the memory of an object, and makes it if there is none. annotation is the key of the
// reconciler's annotation, always the same.
func (r *BaseStatefulReconciler[T, State, Item]) of(key object.Key, annotation string) *memory[State] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects == nil {
		r.objects = map[object.Key]*memory[State]{}
		r.epoch, r.epochKey = strconv.FormatUint(rand.Uint64(), 36), epochKey(annotation)
	}
	m := r.objects[key]
	if m == nil {
		m = &memory[State]{states: make([]State, 1)}
		r.objects[key] = m
	}
	return m
}

// forget forgets an object when the target has nothing of it left. An empty memory stays if the row has
// had a foreign annotation: a clone of that row may be inserted again, and its annotation must not be
// trusted then.
func (r *BaseStatefulReconciler[T, State, Item]) forget(key object.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.objects[key]; m != nil && m.foreign {
		r.objects[key] = &memory[State]{states: make([]State, 1), read: true, foreign: true}
		return
	}
	delete(r.objects, key)
}

// epochKey returns the key of the epoch annotation.
func epochKey(annotation string) string { return annotation + ".epoch" }

// stamped reports whether the annotation of a resource was written by this reconciler. The resource
// must have a memory.
func (r *BaseStatefulReconciler[T, State, Item]) stamped(resource T) bool {
	return resource.GetAnnotations()[r.epochKey] == r.epoch
}

// remember returns the memory of a resource. Its annotation and the store are read if the resource is
// not remembered: the memory is newer than both.
func (r *BaseStatefulReconciler[T, State, Item]) remember(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item]) (*memory[State], error) {
	key := impl.GetStateAnnotationKey()
	m := r.of(object.KeyOf(resource), key)
	text, found := resource.GetAnnotations()[key]
	found = found && !r.stamped(resource) // an object that is not remembered was deleted if it is stamped
	m.foreign = m.foreign || found
	if !m.read {
		if err := r.read(ctx, resource, impl, m, text, found); err != nil {
			return nil, err
		}
	}
	if m.trouble != nil {
		reconciler.Note(ctx, "a first reconciliation: "+m.trouble.Error())
	}
	return m, nil
}

// read adds the states of the annotation and of the store to the memory of a resource.
func (r *BaseStatefulReconciler[T, State, Item]) read(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], m *memory[State], text string, found bool) error {
	key := impl.GetStateAnnotationKey()
	store, stores := impl.(StateStore[T])
	if stores {
		stored, err := store.LoadState(ctx, resource)
		if err != nil {
			return fmt.Errorf("load the state: %w", err)
		}
		if stored != "" {
			m.states[0], m.trouble = decode[State]("stored annotation", key, stored)
			if m.unclear = m.trouble != nil; !m.unclear {
				m.text = stored
			}
		}
	}
	if found {
		state, err := decode[State]("annotation", key, text)
		switch {
		case err != nil:
			m.trouble = errors.Join(m.trouble, err)
		case stores:
			m.states = append(m.states, state)
		default:
			m.states[0], m.text = state, text
		}
	}
	m.read = true
	if m.trouble != nil && r.Logger != nil {
		r.Logger.Warn("treating an annotation that cannot be read as a first reconciliation",
			"object", object.KeyOf(resource).String(), "annotation", key, "error", m.trouble)
	}
	return nil
}

// decode returns the state of a text, or the zero State if it cannot be read.
func decode[State any](what, key, text string) (State, error) {
	var state, nothing State
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return nothing, fmt.Errorf("%s %q cannot be read: %w", what, key, err)
	}
	return state, nil
}

// has reports whether the wanted state is one of those that the target may be in.
func (m *memory[State]) has() bool {
	for i := range m.states {
		if reflect.DeepEqual(&m.states[i], &m.wanted) {
			return true
		}
	}
	return false
}

// full reports whether the wanted state is one more than can be remembered.
func (m *memory[State]) full() bool { return len(m.states) > maxTried && !m.has() }

// changed reports whether the wanted state, or the annotation of the row, differs from what was applied last.
func (m *memory[State]) changed(annotation string) bool {
	return m.text == "" || annotation != m.text || !reflect.DeepEqual(&m.states[0], &m.wanted)
}

// settle records that the target has a state and nothing else. text is its annotation.
func (m *memory[State]) settle(state State, text string) {
	if len(m.states) > 1 {
		m.states = make([]State, 1) // free those that were tried
	}
	m.states[0], m.text = state, text
}

// explain adds the reason for comparing with nothing to an error.
func (m *memory[State]) explain(err error) error {
	if m.trouble == nil {
		return err
	}
	return fmt.Errorf("%w (%s)", err, m.trouble)
}
