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

// SetDiff compares states that are slices of comparable items. Neither the order nor repetitions
// matter. Embedded in a [StatefulReconciler] it implements CompareStates. Items are added and
// removed in the order of the states; none is updated. The zero value is ready to use.
type SetDiff[Item comparable] struct{}

// CompareStates returns the items that only one of the states has. The error is nil.
func (SetDiff[Item]) CompareStates(previous, current []Item) (StateChangeOperations[[]Item, Item], error) {
	return StateChangeOperations[[]Item, Item]{
		ItemsToAdd:    missing(current, previous),
		ItemsToRemove: missing(previous, current),
	}, nil
}

// missing returns the items of from that are not in of, each once.
func missing[Item comparable](from, of []Item) (out []Item) {
	seen := make(map[Item]struct{}, len(from)+len(of))
	for _, item := range of {
		seen[item] = struct{}{}
	}
	for _, item := range from {
		if _, ok := seen[item]; !ok {
			seen[item] = struct{}{}
			out = append(out, item)
		}
	}
	return out
}

// Entry is an item of a state that is a map.
type Entry[Key comparable, Value any] struct {
	Key   Key   `json:"key"`
	Value Value `json:"value"`
}

// MapDiff compares states that are maps. Embedded in a [StatefulReconciler] it implements
// CompareStates. A key with another value is updated to the value of the current state. A removed
// entry has its previous value. Entries are in the order of the keys: of their Compare method if they
// have one, else of integers and strings, else of their texts. The zero value is ready to use.
type MapDiff[Key comparable, Value any] struct {
	// Equal reports whether two values are the same. nil means [reflect.DeepEqual].
	Equal func(a, b Value) bool `json:"-"`
}

// CompareStates returns the entries whose key only one of the states has, and those with another
// value. The error is nil.
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
