// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// revisionList links entries in the order of the changes they still owe, lowest
// first. Changes are observed in revision order, so that an insertion is nearly
// always at the end; it walks back over what was added out of order in the same
// round at most.
type revisionList[Obj any] struct {
	head, tail *entry[Obj]
}

// insert adds an entry that is in no list, after those that owe no later change.
func (l *revisionList[Obj]) insert(e *entry[Obj]) {
	at := l.tail
	for at != nil && at.since > e.since {
		at = at.prev
	}
	e.prev = at
	if at == nil {
		e.next, l.head = l.head, e
	} else {
		e.next, at.next = at.next, e
	}
	if e.next == nil {
		l.tail = e
	} else {
		e.next.prev = e
	}
	e.listed = true
}

// remove takes an entry out, if it is in.
func (l *revisionList[Obj]) remove(e *entry[Obj]) {
	if !e.listed {
		return
	}
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next, e.listed = nil, nil, false
}
