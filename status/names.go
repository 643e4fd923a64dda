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

// nameList is an immutable, sorted list of distinct names, the layout of the entries of
// every Set that has it. Lists are shared: a table of a million objects has a handful.
// Each knows the lists next to it, so that adding a name to a Set finds the new layout
// without building it.
type nameList struct {
	names []string

	// interned tells the lists that live as long as the process, and remember their
	// neighbours, from those made after the budget was spent, which belong to their Sets.
	interned bool

	// with maps a name that is not in the list to the list that has it too. The map is
	// never written to once it is here; writers hold listsMu and replace it.
	with atomic.Pointer[map[string]*nameList]
}

// internBudget bounds, in bytes, what interned lists may take: names that come from
// outside, by way of JSON, must not fill the memory. Eight reconcilers that report in
// every possible order need some 120 kB.
const internBudget = 4 << 20

// maxNeighbours bounds how many lists a list remembers, since the map is copied for each:
// a program that names its entries after objects must not pay for all of them at each one.
// What is not remembered is found among the interned lists.
const maxNeighbours = 64

// noNames is the list all others come from.
var noNames = &nameList{interned: true}

// lists holds the interned lists by their names; see listKey. It is looked into where a
// list meets a new name for the first time, a Set loses an entry, or one is read from text.
var (
	listsMu    sync.Mutex
	lists      = map[string]*nameList{}
	listsBytes int
)

// linearSearchMax is the length up to which comparing one name after the other beats
// halving: names of one length that are not equal mostly differ in their first bytes.
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

// add returns the list that also has the name, which must not be in l, and the position
// of the name in it.
func (l *nameList) add(name string) (list *nameList, at int) {
	if known := l.with.Load(); known != nil {
		if next, found := (*known)[name]; found {
			return next, next.index(name)
		}
	}
	at, _ = slices.BinarySearch(l.names, name)
	// A name may be a piece of a large text that its caller would let go of.
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

// remember makes the way from l to next, by the name, known, if there is room.
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

// intern returns the list of these names, which must be sorted and distinct and now
// belong to it. Equal names give the same list for as long as the budget lasts.
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

// listKey joins names into one string, different for different lists whatever bytes the
// names contain.
func listKey(names []string) string {
	return fmt.Sprintf("%q", names)
}

// listSize estimates what an interned list takes: its names, its key, and its share of
// the maps that lead to it, one from each list with one name less.
func listSize(names []string, key string) int {
	const perList, perName = 128, 64
	size := perList + len(key)
	for _, name := range names {
		size += perName + len(name)
	}
	return size
}
