// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package needs

import (
	"fmt"
	"slices"
	"time"

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

// suspicion is a wait for the look at a row, or for what follows from it. The lock of Needs guards the fields after
// released.
type suspicion[Obj any] struct {
	*suspected[Obj]
	began    time.Time
	released chan struct{}
	// earlier: an operation of the row ran when the look was asked for. Its end says nothing.
	earlier, over bool
	// right: the target was found as the row wants it.
	right bool
}

// Suspect returns what an operation returns that has failed with err, perhaps since the target has lost obj: it is Blocked
// until obj was looked at and, if it was missing, is applied again. If it was found right after the operation had failed
// before, or nothing can look, it is err. waited has the waits of the operation.
func (n *Needs[Obj]) Suspect(obj Obj, err error, waited Waited) error {
	txn := n.cfg.Rows.DB.ReadTxn()
	key, wrong := n.cfg.Rows.KeyOf(obj)
	if wrong != nil || n.cfg.Verify == nil || n.hasEnded() {
		return err
	}
	row, revision, found := n.cfg.Rows.Get(txn, obj)
	if !found {
		return err
	}
	if kind := n.cfg.Status(txn, row, revision).Kind; kind == status.KindUnset {
		return err
	} else if kind != status.KindDone {
		why := fmt.Errorf("%w: %s is not applied", err, n.NameOf(string(key)))
		return outcome.Missing(why, []core.Need{&applied[Obj]{of: n, key: string(key), found: true, row: row, from: revision}})
	}
	for w := range waited {
		if w, is := w.(*suspicion[Obj]); is && w.of == n && w.key == string(key) && w.wasRight() {
			return err
		}
	}
	why := fmt.Errorf("%w: looking at %s", err, n.NameOf(string(key)))
	return outcome.Missing(why, []core.Need{&suspected[Obj]{n, string(key), row}})
}

// Begin implements [core.Need].
func (s *suspected[Obj]) Begin() core.Wait {
	n := s.of
	w := &suspicion[Obj]{suspected: s, began: time.Now(), released: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		w.release(false)
		return w
	}
	n.suspicions[s.key] = append(n.suspicions[s.key], w)
	n.count()
	n.cfg.Verify(s.row, func(running, looks bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if w.earlier = running; !looks {
			w.release(false)
		}
	})
	return w
}

// release ends a suspicion. The caller holds the lock.
func (w *suspicion[Obj]) release(right bool) {
	if w.earlier {
		w.earlier = false
	} else if !w.over {
		w.over, w.right = true, right
		close(w.released)
	}
}

func (w *suspicion[Obj]) wasRight() bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.right
}

// NoteLook records that a look has found the target as a row wants it.
func (n *Needs[Obj]) NoteLook(row Obj) {
	if n.some.Load() > 0 {
		n.noteLook(string(n.cfg.Rows.Key(row)), true, time.Time{})
	}
}

// NoteRecall records that an operation on an object which was begun is not run yet: when it is, its end counts.
func (n *Needs[Obj]) NoteRecall(obj Obj) {
	if n.some.Load() == 0 {
		return
	}
	key := n.cfg.Rows.Key(obj)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.suspicions[string(key)] {
		w.earlier = false
	}
}

// NoteResync records what a resync that began at a time has found: wrong reports whether it has found a row different or
// missing, which is repaired.
func (n *Needs[Obj]) NoteResync(began time.Time, wrong func(row Obj) bool) {
	n.mu.Lock()
	var right []string
	for key, all := range n.suspicions {
		if !wrong(all[0].row) {
			right = append(right, key)
		}
	}
	n.mu.Unlock()
	for _, key := range right {
		n.noteLook(key, true, began)
	}
}

// noteLook ends the suspicions of a key that did not begin after a time, if that is not zero.
func (n *Needs[Obj]) noteLook(key string, right bool, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.suspicions[key] {
		if until.IsZero() || !w.began.After(until) {
			w.release(right)
		}
	}
}

// checkSuspicions ends the suspicions of a key whose row has gone, or is not reconciled any more.
func (n *Needs[Obj]) checkSuspicions(key string) {
	var row Obj
	n.mu.Lock()
	all := n.suspicions[key]
	if len(all) > 0 {
		row = all[0].row
	}
	n.mu.Unlock()
	if len(all) == 0 {
		return
	}
	txn := n.cfg.Rows.DB.ReadTxn()
	if row, revision, found := n.cfg.Rows.Get(txn, row); !found || n.cfg.Status(txn, row, revision).Kind == status.KindUnset {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.endSuspicions(key)
	}
}

// endSuspicions ends the suspicions of a key, whatever runs. The caller holds mu.
func (n *Needs[Obj]) endSuspicions(key string) {
	for _, w := range n.suspicions[key] {
		w.earlier = false
		w.release(false)
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
	if !watch.AnyClosed([]<-chan struct{}{w.released}) {
		yield(core.Needed{In: w.of, Key: w.key})
	}
}

// Why implements [core.Wait].
func (w *suspicion[Obj]) Why() string { return w.of.idle() }
