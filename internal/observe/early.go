// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

import "github.com/cilium/statedb"

// early remembers which versions were applied before the main cursor reaches them. It is needed if the rows
// carry no status that shows it.
type early struct {
	// shown: the rows show it, so that applied has nothing.
	shown bool
	// called is the highest revision of an operation that ran before the main cursor reached it.
	called statedb.Revision
	// applied has the keys that were applied in a version that no cursor had read. last is the highest
	// of these revisions.
	applied map[string]statedb.Revision
	last    statedb.Revision
	// most is the number of keys in applied above which those are looked for that main has passed.
	most int
}

// leastForgotten is the number of keys up to which no key that main has passed is looked for.
const leastForgotten = 1024

// passed forgets what the main cursor has passed.
func (e *early) passed(revision statedb.Revision) {
	switch {
	case e.last <= revision:
		e.applied, e.last, e.most = nil, 0, 0
	case len(e.applied) > e.most:
		// Under a lasting load main never passes all of them.
		for key, at := range e.applied {
			if at <= revision {
				delete(e.applied, key)
			}
		}
		e.most = max(leastForgotten, 2*len(e.applied))
	}
}

// appliedEarly reports whether a version, or a later one, was applied before a cursor read it.
func (o *Observer[Obj]) appliedEarly(obj Obj, revision statedb.Revision) bool {
	return len(o.early.applied) > 0 && revision <= o.early.applied[string(o.rows.Key(obj))]
}

// Applied reports whether a version that was looked up in the table, and that the main cursor has not
// read, was dealt with before: the rows carry no status that would show it.
func (o *Observer[Obj]) Applied(obj Obj, revision statedb.Revision) bool {
	return !o.early.shown && (o.catchUp.wasRead(revision) || o.appliedEarly(obj, revision))
}

// NoteApplied records that a version was applied. It is called for versions that may be later than
// those that the cursors have read.
func (o *Observer[Obj]) NoteApplied(obj Obj, revision statedb.Revision) {
	if revision <= o.revision || o.early.shown || o.catchUp.wasRead(revision) {
		return
	}
	e := &o.early
	if e.applied == nil {
		e.applied = map[string]statedb.Revision{}
	}
	e.applied[string(o.rows.Key(obj))] = revision
	e.last = max(e.last, revision)
}

// Read returns the revision up to which all rows were read, and the ranges above it in which all rows were
// read, in rising order. It says nothing of deletions.
func (o *Observer[Obj]) Read() (upTo statedb.Revision, ranges []Range) {
	if o.catchUp == nil {
		return o.revision, nil
	}
	unread := o.catchUp.unread
	for i := range len(unread) - 1 {
		if r := (Range{unread[i].UpTo, unread[i+1].After}); r.After < r.UpTo {
			ranges = append(ranges, r)
		}
	}
	return unread[0].After, ranges
}
