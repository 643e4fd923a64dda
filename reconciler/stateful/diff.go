// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// SetDiff compares states that are slices of comparable items, of which neither the order
// nor the number of times matters. Embedded in a [StatefulReconciler] it is its
// CompareStates. What is added and removed is in the order of the states; nothing is ever
// updated. The zero value can be used.
type SetDiff[Item comparable] struct{}

// CompareStates says what is in one of the states and not in the other. The error is nil.
func (SetDiff[Item]) CompareStates(previous, current []Item) (StateChangeOperations[[]Item, Item], error) {
	return StateChangeOperations[[]Item, Item]{
		ItemsToAdd:    missing(current, previous),
		ItemsToRemove: missing(previous, current),
	}, nil
}

// manyItems is from how many items on a map is faster than looking at each of them.
const manyItems = 16

// missing returns what is in from and not in of, each once.
func missing[Item comparable](from, of []Item) []Item {
	if len(from)+len(of) > manyItems {
		return missingFromMany(from, of)
	}
	var out []Item
	for i, item := range from {
		if slices.Contains(of, item) || slices.Contains(from[:i], item) {
			continue
		}
		if out == nil {
			out = make([]Item, 0, len(from)-i)
		}
		out = append(out, item)
	}
	return out
}

func missingFromMany[Item comparable](from, of []Item) []Item {
	if len(from) == 0 || slices.Equal(from, of) {
		return nil
	}
	seen := make(map[Item]struct{}, len(from)+len(of))
	for _, item := range of {
		seen[item] = struct{}{}
	}
	var out []Item
	for i, item := range from {
		if _, ok := seen[item]; ok {
			continue
		}
		seen[item] = struct{}{}
		if out == nil {
			out = make([]Item, 0, len(from)-i)
		}
		out = append(out, item)
	}
	return out
}

// KeyDiff compares states that are sets made of maps. Embedded in a [StatefulReconciler] it
// is its CompareStates. What is added and removed is in order: that of the keys' Compare
// method if they have one, else that of numbers and strings, else that of their texts.
// Nothing is ever updated. The zero value can be used.
type KeyDiff[Key comparable] struct{}

// CompareStates says which keys are in one of the states and not in the other. The error is
// nil.
func (KeyDiff[Key]) CompareStates(previous, current map[Key]struct{}) (StateChangeOperations[map[Key]struct{}, Key], error) {
	var ops StateChangeOperations[map[Key]struct{}, Key]
	for key := range current {
		if _, ok := previous[key]; !ok {
			ops.ItemsToAdd = append(ops.ItemsToAdd, key)
		}
	}
	for key := range previous {
		if _, ok := current[key]; !ok {
			ops.ItemsToRemove = append(ops.ItemsToRemove, key)
		}
	}
	slices.SortFunc(ops.ItemsToAdd, compareKeys)
	slices.SortFunc(ops.ItemsToRemove, compareKeys)
	return ops, nil
}

// Entry is an item of a state that is a map.
type Entry[Key comparable, Value any] struct {
	Key   Key   `json:"key"`
	Value Value `json:"value"`
}

// MapDiff compares states that are maps. Embedded in a [StatefulReconciler] it is its
// CompareStates. A key whose value has changed is updated, to the value of the current state;
// what is removed has the value that it had. All is in the order of [KeyDiff]. The zero value
// can be used.
type MapDiff[Key comparable, Value any] struct {
	// Equal reports whether two values are the same. nil means [reflect.DeepEqual].
	Equal func(a, b Value) bool `json:"-"`
}

// CompareStates says which keys are in one of the states and not in the other, and which
// have another value. The error is nil.
func (d MapDiff[Key, Value]) CompareStates(previous, current map[Key]Value) (StateChangeOperations[map[Key]Value, Entry[Key, Value]], error) {
	var ops StateChangeOperations[map[Key]Value, Entry[Key, Value]]
	for _, key := range sortedKeys(current) {
		value := current[key]
		old, ok := previous[key]
		switch {
		case !ok:
			ops.ItemsToAdd = append(ops.ItemsToAdd, Entry[Key, Value]{key, value})
		case !d.equal(old, value):
			ops.ItemsToUpdate = append(ops.ItemsToUpdate, Entry[Key, Value]{key, value})
		}
	}
	for _, key := range sortedKeys(previous) {
		if _, ok := current[key]; !ok {
			ops.ItemsToRemove = append(ops.ItemsToRemove, Entry[Key, Value]{key, previous[key]})
		}
	}
	return ops, nil
}

func (d MapDiff[Key, Value]) equal(a, b Value) bool {
	if d.Equal != nil {
		return d.Equal(a, b)
	}
	return reflect.DeepEqual(a, b)
}

func sortedKeys[Key comparable, Value any](m map[Key]Value) []Key {
	return slices.SortedFunc(maps.Keys(m), compareKeys)
}

func compareKeys[Key comparable](a, b Key) int {
	if a, ok := any(a).(interface{ Compare(Key) int }); ok {
		return a.Compare(b)
	}
	x, y := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	switch {
	case x.Kind() == reflect.String:
		return strings.Compare(x.String(), y.String())
	case x.CanInt():
		return cmp.Compare(x.Int(), y.Int())
	case x.CanUint():
		return cmp.Compare(x.Uint(), y.Uint())
	}
	return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
}
