// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"sync"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// events is a recorder that keeps the events.
type events struct {
	mu     sync.Mutex
	byName map[string][]string
	full   []event.Event
}

func (r *events) Event(obj object.Object, e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = map[string][]string{}
	}
	r.byName[obj.GetName()] = append(r.byName[obj.GetName()], string(e.Type)+" "+string(e.Reason))
	r.full = append(r.full, e)
}

func (r *events) WithAnnotations(...string) event.Recorder { return r }

func (r *events) take(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.byName[name]
	delete(r.byName, name)
	return told
}
