// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package needs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/part"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/watch"
)

// deletions are the deletions of a loop that are not carried out. The lock of Needs guards them.
type deletions[Obj any] struct {
	// tracked: pending has all that the core has. handed is the revision of a state of the table of which it had all.
	tracked bool
	handed  statedb.Revision
	// pending are the deletions by key. Readers iterate over a version of the map without the lock.
	pending part.Map[string, *deletion[Obj]]
	// awaited are the waits for the deletion of a key, unread those for handed.
	awaited map[string]map[*deletedWait[Obj]]struct{}
	unread  map[*deletedWait[Obj]]struct{}
}

// deletion is a deletion that is not carried out. It never changes. why is the text of its last failure, or the reason
// for which it is blocked.
type deletion[Obj any] struct {
	obj Obj
	why string
}

// add records the deletion of the last version of an object. There may have been one of an earlier version.
func (d *deletions[Obj]) add(key string, obj Obj) {
	d.pending = d.pending.Set(key, &deletion[Obj]{obj: obj})
}

// read notes the revision up to which all deletions are in pending.
func (d *deletions[Obj]) read(handed statedb.Revision) {
	d.handed = handed
	for w := range d.unread {
		if w.until <= handed {
			delete(d.unread, w)
			close(w.released)
		}
	}
}

// remove removes a deletion that is carried out, or whose row is back.
func (d *deletions[Obj]) remove(key string) {
	d.pending = d.pending.Delete(key)
	for w := range d.awaited[key] {
		if w.left--; w.left == 0 {
			close(w.released)
		}
	}
	delete(d.awaited, key)
}

// stop wakes all who wait.
func (d *deletions[Obj]) stop() {
	d.read(^statedb.Revision(0))
	d.handed = 0
	for key := range d.awaited {
		d.remove(key)
	}
}

// checkDeletion looks at the deletion of a key.
func (n *Needs[Obj]) checkDeletion(key string) {
	n.mu.Lock()
	d, has := n.deletions.pending.Get(key)
	n.mu.Unlock()
	if !has {
		return
	}
	info, found := n.cfg.Key(key)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !found || !info.Deleted {
		n.deletions.remove(key)
		n.count()
	} else if why := info.Failure + info.Reason; why != d.why {
		n.deletions.pending = n.deletions.pending.Set(key, &deletion[Obj]{d.obj, why})
	}
}

// deleted is the need for deletions that are carried out.
type deleted[Obj any] struct {
	of   *Needs[Obj]
	what string
	// until is the revision of the table up to which deletions count, at least. keys are those that were found; none if
	// the loop had not read all of them.
	until statedb.Revision
	keys  []string
}

// deletedWait is a wait for deletions.
type deletedWait[Obj any] struct {
	*deleted[Obj]
	// at is the revision of the operation.
	at       statedb.Revision
	released chan struct{}
	// left is how many deletions are not carried out. The lock of Needs guards it.
	left int
}

// Deleted reports with its error whether deletions of the loop are not carried out for which match returns true. It is
// Blocked, with a text that begins with what, even if the loop has not read all that the table had when the operation
// was first blocked for it: waited has its waits, with the revision of the operation.
func (n *Needs[Obj]) Deleted(match func(Obj) bool, what string, waited Waited) error {
	need := &deleted[Obj]{of: n, what: what, until: n.cfg.Rows.Revision()}
	for w, at := range waited {
		if w, is := w.(*deletedWait[Obj]); is && w.of == n && w.what == what && w.at == at {
			// With a later revision, an object would wait without end for a table that is always written.
			need.until = min(need.until, w.until)
		}
	}
	n.mu.Lock()
	n.tracks.Store(true)
	pending, ended := n.deletions.pending, n.ended
	read := n.deletions.tracked && n.deletions.handed >= need.until
	n.mu.Unlock()
	switch {
	case ended:
		return outcome.Missing(fmt.Errorf("%s may not be deleted: reconciler %q has stopped", what, n.cfg.Name), nil)
	case !read:
		state := "has not read all deletions"
		if !n.cfg.Started() {
			state = "has not been started"
		}
		return outcome.Missing(fmt.Errorf("%s is %w: reconciler %q %s", what, ErrNotKnown, n.cfg.Name, state), []core.Need{need})
	}
	txn := n.cfg.Rows.DB.ReadTxn()
	for key, d := range pending.All() {
		if !match(d.obj) {
			continue
		}
		// The row may be back, and the loop not have read it yet.
		if _, _, back := n.cfg.Rows.Get(txn, d.obj); !back {
			need.keys = append(need.keys, key)
		}
	}
	if len(need.keys) == 0 {
		return nil
	}
	return outcome.Missing(fmt.Errorf("%s is not deleted", what), []core.Need{need})
}

// Begin implements [core.Need].
func (d *deleted[Obj]) Begin(revision statedb.Revision) core.Wait {
	n := d.of
	w := &deletedWait[Obj]{deleted: d, at: revision, released: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.ended:
		w.released = nil
	case d.keys == nil:
		n.deletions.unread[w] = struct{}{}
		n.count()
		n.cfg.Wake()
	default:
		for _, key := range d.keys {
			if _, pending := n.deletions.pending.Get(key); !pending {
				continue
			}
			w.left++
			waits := n.deletions.awaited[key]
			if waits == nil {
				waits = map[*deletedWait[Obj]]struct{}{}
				n.deletions.awaited[key] = waits
			}
			waits[w] = struct{}{}
		}
		if w.left == 0 {
			w.released = nil
		}
	}
	return w
}

// Released implements [core.Wait].
func (w *deletedWait[Obj]) Released() <-chan struct{} {
	if w.released == nil {
		return watch.Closed
	}
	return w.released
}

// Outlives implements [core.Wait]: the revision up to which deletions have to be read stays until they are carried out.
func (w *deletedWait[Obj]) Outlives(revision statedb.Revision, others []core.Wait) bool {
	return w.at == revision && !slices.ContainsFunc(others, func(other core.Wait) bool {
		o, is := other.(*deletedWait[Obj])
		return is && o.of == w.of && o.what == w.what
	})
}

// End implements [core.Wait].
func (w *deletedWait[Obj]) End() {
	d := &w.of.deletions
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	delete(d.unread, w)
	for _, key := range w.keys {
		waits := d.awaited[key]
		if delete(waits, w); len(waits) == 0 {
			delete(d.awaited, key)
		}
	}
	w.of.count()
}

// stillPending calls yield with the deletions that are not carried out, until it returns false.
func (w *deletedWait[Obj]) stillPending(yield func(key string, d *deletion[Obj]) bool) {
	w.of.mu.Lock()
	pending := w.of.deletions.pending
	w.of.mu.Unlock()
	for _, key := range w.keys {
		if d, is := pending.Get(key); is && !yield(key, d) {
			return
		}
	}
}

// Needed implements [core.Wait].
func (w *deletedWait[Obj]) Needed(yield func(core.Needed) bool) {
	for key := range w.stillPending {
		if !yield(core.Needed{In: w.of, Key: key}) {
			return
		}
	}
}

// maxNamed bounds the deletions that Why names.
const maxNamed = 3

// Why implements [core.Wait].
func (w *deletedWait[Obj]) Why() string {
	var lines []string
	more := 0
	for key, d := range w.stillPending {
		if len(lines) == maxNamed {
			more++
			continue
		}
		line := "deletion of " + w.of.NameOf(key)
		if d.why != "" {
			line += ": " + d.why
		}
		lines = append(lines, line)
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("%d more", more))
	}
	if w.of.cfg.Started() && w.of.cfg.Paused() {
		lines = append(lines, w.of.idle())
	}
	return strings.Join(lines, ", ")
}
