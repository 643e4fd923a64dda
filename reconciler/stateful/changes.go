// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import "reflect"

// StateChangeOperations are the operations needed to reconcile a change of state. The zero
// value says that nothing is to be done. The lists hold no item twice if the states do not.
type StateChangeOperations[State, Item any] struct {
	// ItemsToAdd need to be added to the target. Some may be there.
	ItemsToAdd []Item `json:"itemsToAdd,omitempty"`
	// ItemsToRemove need to be removed from the target. Some may be gone.
	ItemsToRemove []Item `json:"itemsToRemove,omitempty"`
	// ItemsToUpdate need to be updated in the target, to what they are here. Some may be
	// missing.
	ItemsToUpdate []Item `json:"itemsToUpdate,omitempty"`
	// ContextChanged says that the context, such as the name or the type of what the
	// items belong to, has changed, which needs special handling, such as cleaning up the
	// old one. If a resource has been tried in several contexts there is a call of
	// ApplyOperations for each that has to be cleaned up.
	ContextChanged bool `json:"contextChanged,omitempty"`
	// PreviousContext is the state that has the old context, for the clean-up. It is the
	// zero State unless ContextChanged.
	PreviousContext State `json:"previousContext,omitzero"`
}

// IsEmpty reports whether there is nothing to do.
func (ops *StateChangeOperations[State, Item]) IsEmpty() bool {
	return len(ops.ItemsToAdd) == 0 && len(ops.ItemsToRemove) == 0 && len(ops.ItemsToUpdate) == 0 && !ops.ContextChanged
}

// joined collects operations that lead to the same state from different ones. What is to be
// updated for one of them is not added as well.
type joined[Item any] struct {
	add, remove, update list[Item]
}

func newJoined[Item any]() joined[Item] {
	hashable := hashable(reflect.TypeFor[Item]())
	return joined[Item]{list[Item]{hashable: hashable}, list[Item]{hashable: hashable}, list[Item]{hashable: hashable}}
}

func (j *joined[Item]) toAdd() []Item {
	var add []Item
	for _, item := range j.add.items {
		if !j.update.has(item) {
			add = append(add, item)
		}
	}
	return add
}

// list holds each item once, in the order in which they came.
type list[Item any] struct {
	items []Item
	// index has the items if they are hashable.
	index    map[any]struct{}
	hashable bool
}

func (l *list[Item]) addAll(items []Item) {
	for _, item := range items {
		if l.has(item) {
			continue
		}
		l.items = append(l.items, item)
		if l.hashable {
			if l.index == nil {
				l.index = map[any]struct{}{}
			}
			l.index[item] = struct{}{}
		}
	}
}

func (l *list[Item]) has(item Item) bool {
	if l.hashable {
		_, ok := l.index[item]
		return ok
	}
	for i := range l.items {
		if reflect.DeepEqual(l.items[i], item) {
			return true
		}
	}
	return false
}

// hashable reports whether values of a type can be keys of a map whatever they hold.
func hashable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return false
	case reflect.Array:
		return hashable(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !hashable(t.Field(i).Type) {
				return false
			}
		}
	}
	return t.Comparable()
}
