// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"sync"

	"github.com/statekeel/statekeel/reconciler/object"
)

// keptNotes are what a create has led to and the table could not be told: the row was gone or
// could not be written. They are few, and kept until a pass has written them, or the resource is
// gone. The zero value is empty.
type keptNotes struct {
	mu    sync.Mutex
	byKey map[object.Key]*object.Meta
}

// keep remembers what is noted on an object.
func (k *keptNotes) keep(obj object.Object) {
	note := &object.Meta{}
	copyNotes(note, obj)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byKey == nil {
		k.byKey = map[object.Key]*object.Meta{}
	}
	k.byKey[object.KeyOf(obj)] = note
}

// recall returns what is remembered of an object, nil if nothing is.
func (k *keptNotes) recall(key object.Key) *object.Meta {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byKey[key]
}

func (k *keptNotes) has(key object.Key) bool { return k.recall(key) != nil }

func (k *keptNotes) forget(key object.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byKey, key)
}
