// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import "reflect"

// StateChangeOperations are the changes that lead from one state to another. The zero value has no
// changes. Each list has an item at most once if the states do.
type StateChangeOperations[State, Item any] struct {
	// ItemsToAdd must be added to the target. Some may exist already.
	ItemsToAdd []Item `json:"itemsToAdd,omitempty"`
	// ItemsToRemove must be removed from the target. Some may be gone already.
	ItemsToRemove []Item `json:"itemsToRemove,omitempty"`
	// ItemsToUpdate must be updated in the target to the given values. Some may be missing.
	ItemsToUpdate []Item `json:"itemsToUpdate,omitempty"`
	// ContextChanged reports that the context changed, such as the name or the type of the thing
	// that the items belong to. ApplyOperations then has to clean up the old context. If a resource
	// has been tried in several contexts, ApplyOperations is called once for each that has to be
	// cleaned up.
	ContextChanged bool `json:"contextChanged,omitempty"`
	// PreviousContext is the state with the old context, for the clean-up. It is the zero State if
	// ContextChanged is false.
	PreviousContext State `json:"previousContext,omitzero"`
}

// IsEmpty reports whether there are no changes.
func (ops *StateChangeOperations[State, Item]) IsEmpty() bool {
	return len(ops.ItemsToAdd) == 0 && len(ops.ItemsToRemove) == 0 && len(ops.ItemsToUpdate) == 0 && !ops.ContextChanged
}

// joined combines operations that lead to the same state from different ones. An item that is
// updated is not added as well.
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

// list has each item once, in the order in which they were added.
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

// hashable reports whether all values of a type can be keys of a map.
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
