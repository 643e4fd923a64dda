// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package needs has what operations need of the objects of a loop: that a row is applied, or that deletions are carried
// out. The loop may be another one than that of the operation, or the same.
//
// A loop has a [Needs]. Operations of any loop call [Needs.Applied] and [Needs.Deleted], which read the table and what
// the loop has published, and never wait. What is not met is a [core.Need] in the error. The loop of the blocked object
// begins the wait for it ([Needs.Block]) when the operation has ended, in its own Needs. The goroutine of the needed
// loop notes what happens to its keys, and [Needs.Check] wakes those that wait for these keys, at the end of a pass.
//
// While no function of a Needs is called, it holds no lock, and it holds the locks of two of them never at once. Under
// a lock it calls no function of the program but the primary index of the table.
package needs

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/changes"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/status"
)

// ErrNotKnown is reconciler.ErrNotKnown.
var ErrNotKnown = errors.New("not known yet")

// unknown is an error with a text of its own that is [ErrNotKnown].
type unknown struct{ error }

// Is makes errors.Is true for [ErrNotKnown].
func (unknown) Is(target error) bool { return target == ErrNotKnown }

// Limit bounds the keys that one [Needs.Check] looks at.
const Limit = 1024

// Config is the configuration of a [Needs]. All fields are required, except Applied, and Verify with Pauses.
type Config[Obj any] struct {
	Rows *rows.Rows[Obj]
	// Name is the name of the reconciler for people.
	Name string
	// Status returns the status of the row that a transaction holds at a revision. Started reports whether the loop runs,
	// or has run, Paused whether the whole loop is paused. Wake has the loop call Check. All are safe from any goroutine.
	Status          func(txn statedb.ReadTxn, row Obj, revision statedb.Revision) status.Status
	Started, Paused func() bool
	Wake            func()

	// The goroutine of the loop calls the functions below. Verify has a row looked at in the target; nil if nothing can look.
	// running reports whether an operation on it runs, after which it is looked at. Pauses reports whether an object is paused.
	// Applied reports whether a version of a row is applied that may not show as Done yet; nil if each that is applied does.
	// Key describes a key; false if it has no entry. Deletions has the objects of which the core has the deletion, by key.
	Verify    func(row Obj, revision statedb.Revision) (running bool)
	Pauses    func(row Obj) bool
	Applied   func(row Obj, revision statedb.Revision) bool
	Key       func(key string) (core.KeyInfo[Obj], bool)
	Deletions func() iter.Seq2[string, Obj]
}

// Needs has what others need of the objects of a loop, and what its blocked objects need.
//
// Applied, Deleted, WaitsOf and NameOf, and the methods of needs and waits, are safe from any goroutine. The other
// methods belong to the goroutine of the loop.
type Needs[Obj any] struct {
	cfg Config[Obj]
	// some is the number of keys that are looked at if anything happens to them.
	// While it is zero, a note costs one load. blocked is the number of blocked objects with needs.
	some, blocked atomic.Int64
	// tracks: somebody has asked for deletions.
	tracks atomic.Bool

	mu sync.Mutex
	// ended: the loop has ended.
	ended bool
	// suspicions are the waits for looks, by key.
	suspicions map[string][]*suspicion[Obj]
	// rows are those that somebody waits for. due are the keys to look at, in order, without duplicates.
	rows      map[string]*awaited[Obj]
	due       []string
	isDue     map[string]struct{}
	deletions deletions[Obj]
	// waits are those of the blocked objects of this loop.
	waits map[string]blockedObject[Obj]
	// begun: Check was called.
	begun bool
}

// blockedObject is a blocked object of the loop, with its waits.
type blockedObject[Obj any] struct {
	row   Obj
	waits []core.Wait
}

// New returns the needs of a loop.
func New[Obj any](cfg Config[Obj]) *Needs[Obj] {
	return &Needs[Obj]{
		cfg: cfg, rows: map[string]*awaited[Obj]{}, suspicions: map[string][]*suspicion[Obj]{}, isDue: map[string]struct{}{},
		waits: map[string]blockedObject[Obj]{},
		deletions: deletions[Obj]{
			changes: changes.Table[Obj]{Table: cfg.Rows.Table}, known: make(chan struct{}),
			awaited: map[string]map[*deleted[Obj]]struct{}{},
		},
	}
}

// Block begins the waits of a blocked object of this loop, and ends those that it had, except those of had that still
// count. It returns the channels of which one is closed when the object should run again.
func (n *Needs[Obj]) Block(row Obj, had []core.Wait, list []core.Need) (released []<-chan struct{}) {
	if len(list) == 0 && n.blocked.Load() == 0 {
		return nil
	}
	waits := make([]core.Wait, len(list))
	for i, need := range list {
		waits[i] = need.Begin()
		released = append(released, waits[i].Released())
	}
	key := string(n.cfg.Rows.Key(row))
	others := waits
	for _, w := range had {
		if w.Outlives(others) {
			waits = append(waits, w)
		}
	}
	// The others end last, so that a row for which both wait stays awaited.
	n.replace(key, blockedObject[Obj]{row, waits})
	return released
}

// Unblock ends the waits of an object of this loop.
func (n *Needs[Obj]) Unblock(row Obj) {
	if n.blocked.Load() > 0 {
		n.replace(string(n.cfg.Rows.Key(row)), blockedObject[Obj]{})
	}
}

// Any reports whether any object of this loop is blocked with needs.
func (n *Needs[Obj]) Any() bool { return n.blocked.Load() > 0 }

// IsNeeded reports whether others may wait for objects of this loop.
func (n *Needs[Obj]) IsNeeded() bool { return n.some.Load() > 0 }

// idle returns why the loop does nothing; empty if it runs.
func (n *Needs[Obj]) idle() string {
	switch {
	case !n.cfg.Started():
		return fmt.Sprintf("reconciler %q has not been started", n.cfg.Name)
	case n.cfg.Paused():
		return fmt.Sprintf("reconciler %q is paused", n.cfg.Name)
	}
	return ""
}

func (n *Needs[Obj]) replace(key string, with blockedObject[Obj]) {
	n.mu.Lock()
	had := n.waits[key].waits
	if len(with.waits) > 0 {
		n.waits[key] = with
	} else {
		delete(n.waits, key)
	}
	n.blocked.Store(int64(len(n.waits)))
	n.mu.Unlock()
	for _, w := range had {
		if !slices.Contains(with.waits, w) {
			w.End()
		}
	}
}

// WaitsOf implements [core.Loop].
func (n *Needs[Obj]) WaitsOf(key string) []core.Wait {
	if n.blocked.Load() == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waits[key].waits
}

// NameOf implements [core.Loop].
func (n *Needs[Obj]) NameOf(key string) string {
	n.mu.Lock()
	b, blocked := n.waits[key]
	d, deleted := n.deletions.pending.Get(key)
	n.mu.Unlock()
	name := n.cfg.Rows.KeyName(index.Key(key))
	if blocked {
		name = n.cfg.Rows.Name(b.row)
	} else if deleted {
		name = n.cfg.Rows.Name(d.obj)
	} else if row, _, found := n.cfg.Rows.ByKey(n.cfg.Rows.DB.ReadTxn(), index.Key(key)); found {
		name = n.cfg.Rows.Name(row)
	}
	return name + " (" + n.cfg.Name + ")"
}

// NoteChange records that the row or the state of an object's key may have changed.
func (n *Needs[Obj]) NoteChange(obj Obj) { n.note(obj, nil) }

// NoteOperation records that an operation on an object, at the given revision, has ended and was settled. applied
// reports whether the target has the version now.
func (n *Needs[Obj]) NoteOperation(obj Obj, revision statedb.Revision, deleted, applied bool) {
	n.NoteLook(obj, false)
	n.note(obj, func(a *awaited[Obj]) {
		switch {
		case deleted:
			a.applied = 0
		case applied:
			if a.applied = revision; revision >= a.from {
				a.wake()
			}
		}
	})
}

// NoteOrphan records that the core has the deletion of an object which is not one of a row.
func (n *Needs[Obj]) NoteOrphan(obj Obj) {
	if !n.tracks.Load() {
		return
	}
	key := string(n.cfg.Rows.Key(obj))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addDeletion(key, obj)
	n.count()
}

// note has a key looked at, if somebody waits for it. happened may be nil.
func (n *Needs[Obj]) note(obj Obj, happened func(*awaited[Obj])) {
	if n.some.Load() == 0 {
		return
	}
	key := string(n.cfg.Rows.Key(obj))
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.rows[key]
	if a != nil && happened != nil {
		happened(a)
	}
	if _, deleted := n.deletions.pending.Get(key); a != nil || deleted || n.suspicions[key] != nil {
		n.request(key)
	}
}

// request has a key looked at. The caller holds mu.
func (n *Needs[Obj]) request(key string) {
	if _, is := n.isDue[key]; !is {
		n.isDue[key] = struct{}{}
		n.due = append(n.due, key)
	}
}

// count sets some. The caller holds mu.
func (n *Needs[Obj]) count() {
	n.some.Store(int64(len(n.rows) + n.deletions.pending.Len() + len(n.suspicions)))
}

// Check wakes those whose needs may be met. handed is the revision of a state of the table of which all deletions were
// given to the core, or left out since their rows are back. more: there are more than [Limit] keys, for the next call.
// It is called between two passes, or at the end of one, when all operations in line are settled.
func (n *Needs[Obj]) Check(handed statedb.Revision) (more bool) {
	if n.some.Load() == 0 && !n.tracks.Load() && n.begun {
		return false
	}
	if n.tracks.Load() {
		more = watch.IsClosed(n.read(n.cfg.Rows.DB.ReadTxn(), maxRead))
	}
	keys := n.take(handed, !more)
	for _, key := range keys {
		n.checkRow(key)
		n.checkDeletion(key)
		n.checkSuspicions(key)
	}
	return more || len(keys) == Limit
}

// take notes how far deletions were given to the core, and returns the next keys to look at. all: all changes were read.
func (n *Needs[Obj]) take(handed statedb.Revision, all bool) (keys []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tracks.Load() && !n.deletions.opens {
		n.deletions.opens = true
		go n.open()
	}
	if !n.begun {
		// Others may have waited before the loop ran, for rows that it will not read.
		n.begun = true
		for key := range n.rows {
			n.request(key)
		}
	}
	n.takeDeletions(handed, all)
	n.count()
	keys = n.due[:min(len(n.due), Limit)]
	if n.due = n.due[len(keys):]; len(n.due) == 0 {
		n.due = nil
	}
	for _, key := range keys {
		delete(n.isDue, key)
	}
	return keys
}

// Stop ends all waits: those of the objects of this loop, and those for its objects, which run again. It is called at the
// end of the loop, and may be called again.
func (n *Needs[Obj]) Stop() {
	n.mu.Lock()
	n.ended = true
	blocked := n.waits
	n.waits = map[string]blockedObject[Obj]{}
	n.blocked.Store(0)
	for _, a := range n.rows {
		a.wake()
	}
	for _, all := range n.suspicions {
		for _, w := range all {
			w.release(false)
		}
	}
	n.deletions.stop()
	n.mu.Unlock()
	for _, b := range blocked {
		for _, w := range b.waits {
			w.End()
		}
	}
}

// Circle returns objects of which each needs the next, and the last the first; nil if the needs of an object lead to no
// such circle. It visits a thousand objects at most.
func Circle(from core.Needed) []core.Needed {
	var path []core.Needed
	// at has the place of an object in the path, from 1 on; 0 if it was left again.
	at := map[core.Needed]int{}
	var visit func(core.Needed) []core.Needed
	visit = func(o core.Needed) (found []core.Needed) {
		if place, seen := at[o]; seen || len(at) == maxVisited {
			if place > 0 {
				return slices.Clone(path[place-1:])
			}
			return nil
		}
		path = append(path, o)
		at[o] = len(path)
		for _, w := range o.In.WaitsOf(o.Key) {
			w.Needed(func(next core.Needed) bool { found = visit(next); return found == nil })
			if found != nil {
				return found
			}
		}
		path, at[o] = path[:len(path)-1], 0
		return nil
	}
	return visit(from)
}

// maxVisited bounds the objects that Circle visits.
const maxVisited = 1000
