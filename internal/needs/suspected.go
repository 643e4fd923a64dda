// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package needs

import (
	"fmt"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/status"
)

// suspected is the need for a row that is applied as far as its status says, to be looked at in the target.
type suspected[Obj any] struct {
	of  *Needs[Obj]
	key string
	row Obj
}

// suspicion is a wait for the look at a row, or for what follows from it. The goroutine of the loop writes the fields after
// released, under the lock of Needs.
type suspicion[Obj any] struct {
	*suspected[Obj]
	released chan struct{}
	// asked is when the loop was asked to look; zero if it was not. What ends or begins before says nothing.
	asked time.Time
	// earlier: an operation of the row ran then. Its end says nothing. paused: the object is paused, and is looked at when it
	// is resumed.
	earlier, paused bool
	// over: released is closed. right: the target was found as the row wants it.
	over, right bool
}

// Suspect returns what an operation returns that has failed with err, perhaps since the target has lost obj: it is Blocked
// until obj was looked at and, if it was missing, is applied again. If it was found right after the operation had failed
// before, or nothing can look, it is err. waited has the waits of the operation.
func (n *Needs[Obj]) Suspect(obj Obj, err error, waited Waited) error {
	key, wrong := n.cfg.Rows.KeyOf(obj)
	if wrong != nil || n.cfg.Verify == nil || n.hasEnded() {
		return err
	}
	row, revision, kind := n.find(n.cfg.Rows.DB.ReadTxn(), obj)
	why, need := "looking at "+n.NameOf(string(key)), core.Need(&suspected[Obj]{n, string(key), row})
	var looked, right bool
	for w := range waited {
		if w, is := w.(*suspicion[Obj]); is && w.of == n && w.key == string(key) {
			looked, right = true, right || w.wasRight()
		}
	}
	version := &applied[Obj]{of: n, key: string(key), found: true, row: row, from: revision}
	switch {
	case kind == status.KindUnset, kind == status.KindDone && right:
		return err
	case kind == status.KindDone:
	case kind == status.KindPending && !looked && version.wasApplied(waited): // It may not show that it was applied yet.
	default:
		why, need = n.NameOf(string(key))+" is not applied", version
	}
	var with outcome.Directive
	if d := outcome.Of(err); d != nil {
		// Another object is suspected, too.
		with = *d
	}
	return outcome.Missing(fmt.Errorf("%w: %s", err, why), append(slices.Clip(with.Needs), need), with.Watch...)
}

// find returns the row of an object, and the kind of its status: that is unset if there is no row.
func (n *Needs[Obj]) find(txn statedb.ReadTxn, obj Obj) (row Obj, revision statedb.Revision, kind status.Kind) {
	row, revision, found := n.cfg.Rows.Get(txn, obj)
	if found {
		kind = n.cfg.Status(txn, row, revision).Kind
	}
	return row, revision, kind
}

// Begin implements [core.Need]. However many suspicions of a key begin while the loop hangs, it is asked once.
func (s *suspected[Obj]) Begin() core.Wait {
	n := s.of
	w := &suspicion[Obj]{suspected: s, released: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		w.release(false)
		return w
	}
	n.suspicions[s.key] = append(n.suspicions[s.key], w)
	n.count()
	n.request(s.key)
	n.cfg.Wake()
	return w
}

// release ends a suspicion. The caller holds the lock.
func (w *suspicion[Obj]) release(right bool) {
	if !w.over {
		w.over, w.right = true, right
		close(w.released)
	}
}

func (w *suspicion[Obj]) wasRight() bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.right
}

// AnySuspected reports whether a row is suspected. It is judged if it shows as Done.
func (n *Needs[Obj]) AnySuspected() bool {
	if n.some.Load() == 0 {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.suspicions) > 0
}

// NoteLook records that a look at a row, or an operation on it, has ended. right: the row is Done, and the target as it
// wants.
func (n *Needs[Obj]) NoteLook(row Obj, right bool) {
	n.noteEnd(row, func(w *suspicion[Obj]) { w.release(right) })
}

// NoteRecall records that an operation on an object which was begun is not run yet: when it is, its end counts.
func (n *Needs[Obj]) NoteRecall(obj Obj) { n.noteEnd(obj, func(*suspicion[Obj]) {}) }

// noteEnd calls f for the suspicions of an object for which the end of an operation counts.
func (n *Needs[Obj]) noteEnd(obj Obj, f func(*suspicion[Obj])) {
	if n.some.Load() == 0 {
		return
	}
	key := n.cfg.Rows.Key(obj)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.suspicions[string(key)] {
		if !w.asked.IsZero() && !w.earlier {
			f(w)
		}
		w.earlier = false
	}
}

// NoteResync records what a resync that began at a time has found, if nothing looks at single objects: wrong reports
// whether a row is different or missing, and is repaired. Rows that are not Done were not judged, nor those of which an
// operation has ended since: that has ended their suspicions. Those that were asked for during the resync ask again.
func (n *Needs[Obj]) NoteResync(began time.Time, wrong func(row Obj) bool) {
	n.mu.Lock()
	suspects := make(map[string]Obj, len(n.suspicions))
	for key, all := range n.suspicions {
		suspects[key] = all[0].row
	}
	n.mu.Unlock()
	txn := n.cfg.Rows.DB.ReadTxn()
	for key, row := range suspects {
		if wrong(row) {
			continue
		}
		_, _, kind := n.find(txn, row)
		n.mu.Lock()
		for _, w := range n.suspicions[key] {
			if w.asked.After(began) {
				w.asked = time.Time{}
			} else if !w.asked.IsZero() {
				w.release(kind == status.KindDone)
			}
		}
		n.request(key)
		n.mu.Unlock()
		n.cfg.Wake()
	}
}

// NotePause records that other objects may be paused.
func (n *Needs[Obj]) NotePause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key := range n.suspicions {
		n.request(key)
	}
}

// checkSuspicions has the loop look at a row that is suspected, and again if it has forgotten the key without a look. It ends
// the suspicions of a row that has gone, or is not reconciled any more.
func (n *Needs[Obj]) checkSuspicions(key string) {
	n.mu.Lock()
	all := slices.Clone(n.suspicions[key])
	n.mu.Unlock()
	if len(all) == 0 {
		return
	}
	row, revision, kind := n.find(n.cfg.Rows.DB.ReadTxn(), all[0].row)
	var running, paused bool
	if kind != status.KindUnset {
		_, comes := n.cfg.Key(key)
		asks := slices.ContainsFunc(all, func(w *suspicion[Obj]) bool { return !w.over && (w.asked.IsZero() || !comes) })
		running, paused = asks && n.cfg.Verify(row, revision), n.cfg.Pauses(row)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range all {
		if w.paused = paused; kind == status.KindUnset {
			w.release(false)
		} else if w.asked.IsZero() {
			w.asked, w.earlier = time.Now(), running
		}
	}
}

// Released implements [core.Wait].
func (w *suspicion[Obj]) Released() <-chan struct{} { return w.released }

// Outlives implements [core.Wait]: that the target was right is known until the object is suspected again.
func (w *suspicion[Obj]) Outlives(others []core.Wait) bool {
	return w.wasRight() && !slices.ContainsFunc(others, func(other core.Wait) bool {
		o, is := other.(*suspicion[Obj])
		return is && o.of == w.of && o.key == w.key
	})
}

// End implements [core.Wait].
func (w *suspicion[Obj]) End() {
	n := w.of
	n.mu.Lock()
	defer n.mu.Unlock()
	all := slices.DeleteFunc(n.suspicions[w.key], func(other *suspicion[Obj]) bool { return other == w })
	if n.suspicions[w.key] = all; len(all) == 0 {
		delete(n.suspicions, w.key)
	}
	n.count()
}

// Needed implements [core.Wait].
func (w *suspicion[Obj]) Needed(yield func(core.Needed) bool) {
	if !watch.IsClosed(w.released) {
		yield(core.Needed{In: w.of, Key: w.key})
	}
}

// Why implements [core.Wait].
func (w *suspicion[Obj]) Why() string {
	w.of.mu.Lock()
	paused := w.paused
	w.of.mu.Unlock()
	if why := w.of.idle(); why != "" || !paused {
		return why
	}
	return w.of.NameOf(w.key) + " is paused"
}
