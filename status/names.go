// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// nameList is an immutable, sorted list of distinct names: the layout of the entries of every Set
// with these names. Lists are shared, so a table of a million objects needs only a few. Each list
// refers to its neighbours (the lists with one name more), so adding a name to a Set finds the new
// layout without building it.
type nameList struct {
	names []string

	// interned is true for lists that live as long as the process and remember their neighbours;
	// false for lists made after the budget was used up, which belong to their Sets.
	interned bool

	// with maps a name that is not in the list to the list that also has it. The map is never
	// written to once it is here; writers hold listsMu and replace it.
	with atomic.Pointer[map[string]*nameList]
}

// internBudget bounds the memory of interned lists, in bytes: names can come from outside, in JSON.
// Eight reconcilers that report in every possible order need about 120 kB.
const internBudget = 4 << 20

// maxNeighbours bounds the neighbours that a list remembers. The map is copied for each new one,
// which would be costly for a program that names its entries after objects. A neighbour that is not
// remembered is found among the interned lists.
const maxNeighbours = 64

// noNames is the empty list, from which all others are derived.
var noNames = &nameList{interned: true}

// lists holds the interned lists by their names; see listKey. It is used when a list gets a name
// for the first time, when a Set loses an entry, or when a Set is read from text.
var (
	listsMu    sync.Mutex
	lists      = map[string]*nameList{}
	listsBytes int
)

// linearSearchMax is the length up to which a linear search is faster than a binary one: names of
// equal length mostly differ in their first bytes.
const linearSearchMax = 8

// index returns the position of the name, or -1.
func (l *nameList) index(name string) int {
	if len(l.names) <= linearSearchMax {
		for i, n := range l.names {
			if n == name {
				return i
			}
		}
		return -1
	}
	if i, found := slices.BinarySearch(l.names, name); found {
		return i
	}
	return -1
}

// add returns the list with one name more and the position of that name. The name must not be in l.
func (l *nameList) add(name string) (list *nameList, at int) {
	if known := l.with.Load(); known != nil {
		if next, found := (*known)[name]; found {
			return next, next.index(name)
		}
	}
	at, _ = slices.BinarySearch(l.names, name)
	// A name may be a piece of a large text that must not be kept in memory.
	names := slices.Insert(slices.Clone(l.names), at, strings.Clone(name))
	if !l.interned {
		return &nameList{names: names}, at
	}
	list = intern(names)
	if list.interned {
		l.remember(names[at], list)
	}
	return list, at
}

// remember stores next as the neighbour of l for the name, if there is room.
func (l *nameList) remember(name string, next *nameList) {
	listsMu.Lock()
	defer listsMu.Unlock()
	known := map[string]*nameList{}
	if old := l.with.Load(); old != nil {
		if len(*old) >= maxNeighbours {
			return
		}
		known = maps.Clone(*old)
	}
	known[name] = next
	l.with.Store(&known)
}

// intern returns the list of these names. They must be sorted and distinct; intern takes ownership
// of the slice. Equal names give the same list until the budget is used up.
func intern(names []string) *nameList {
	if len(names) == 0 {
		return noNames
	}
	key := listKey(names)
	listsMu.Lock()
	defer listsMu.Unlock()
	if list, found := lists[key]; found {
		return list
	}
	size := listSize(names, key)
	if listsBytes+size > internBudget {
		return &nameList{names: names}
	}
	listsBytes += size
	list := &nameList{names: names, interned: true}
	lists[key] = list
	return list
}

// listKey joins names into one string. Different lists have different keys, whatever bytes the
// names contain.
func listKey(names []string) string {
	return fmt.Sprintf("%q", names)
}

// listSize estimates the memory of an interned list: its names, its key, and its share of the maps
// that lead to it, one from each list with one name less.
func listSize(names []string, key string) int {
	const perList, perName = 128, 64
	size := perList + len(key)
	for _, name := range names {
		size += perName + len(name)
	}
	return size
}
