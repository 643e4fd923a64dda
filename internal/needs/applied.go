// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package needs

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/status"
)

// awaited is a key whose row blocked objects need. The lock of Needs guards it.
type awaited[Obj any] struct {
	waits int
	// row is a version of the row if known; it does not change.
	row   Obj
	known bool
	// found: the table had the row when it was last looked up for a wait.
	found bool
	// applied is the revision of the last version that was applied since there are waits; 0 if none was, or an operation
	// has deleted the object since.
	applied statedb.Revision
	// from is the lowest revision for which somebody waits: of older versions only applied is noted.
	from statedb.Revision
	// changed is closed if woken: when the row was applied, appeared or has gone.
	changed chan struct{}
	woken   bool
}

func (a *awaited[Obj]) wake() {
	if !a.woken {
		a.woken = true
		close(a.changed)
	}
}

// applied is the need for a row that is applied: that of a query, as an operation has seen it.
type applied[Obj any] struct {
	of  *Needs[Obj]
	key string
	// found: the table had the row, at the revision from.
	found bool
	row   Obj
	from  statedb.Revision
}

// appliedWait is a wait for a row.
type appliedWait[Obj any] struct {
	*applied[Obj]
	on       *awaited[Obj]
	released <-chan struct{}
}

// Waited are the waits that the objects of an operation had.
type Waited = iter.Seq[core.Wait]

// Applied looks up a row that an operation needs. The row is applied if it is Done, or if a version was applied that is
// not older than the one for which a wait of the operation began: waited has its waits. Otherwise the error is Blocked,
// with a text that begins with what.
func (n *Needs[Obj]) Applied(txn statedb.ReadTxn, query statedb.Query[Obj], what string, waited Waited) (none Obj, err error) {
	row, revision, changed, found := n.cfg.Rows.Table.GetWatch(txn, query)
	need := &applied[Obj]{of: n, found: found, row: row, from: revision}
	if found {
		need.key = string(n.cfg.Rows.Key(row))
		if n.cfg.Status(txn, row, revision).Kind == status.KindDone || need.isMet(waited) {
			return row, nil
		}
		if n.hasEnded() {
			stopped := fmt.Errorf("%s is not applied: reconciler %q has stopped", what, n.cfg.Name)
			return none, outcome.Missing(unknown{stopped}, nil, changed)
		}
		return none, outcome.Missing(unknown{errors.New(what + " is not applied")}, []core.Need{need})
	}
	err = errors.New(what + " is missing")
	var channels []<-chan struct{}
	if initialized, filled := n.cfg.Rows.Table.Initialized(txn); !initialized {
		err = fmt.Errorf("%s is %w: table %q is not initialised", what, ErrNotKnown, n.cfg.Rows.Table.Name())
		channels = append(channels, filled)
	}
	key, known := n.cfg.Rows.KeyOfQuery(query)
	if !known || n.hasEnded() {
		return none, outcome.Missing(err, nil, append(channels, changed)...)
	}
	need.key = string(key)
	return none, outcome.Missing(err, []core.Need{need}, channels...)
}

func (n *Needs[Obj]) hasEnded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// isMet reports whether a version of the row was applied that is no older than the one for which one of the waits began.
// The row may have been written again since, and so on: then it is never seen Done.
func (a *applied[Obj]) isMet(waited Waited) bool {
	for w := range waited {
		if w, is := w.(*appliedWait[Obj]); is && w.of == a.of && w.key == a.key && w.isMet() {
			return true
		}
	}
	return false
}

// wasApplied reports whether one of the waits knows that the version of the need was applied.
func (a *applied[Obj]) wasApplied(waited Waited) bool {
	for w := range waited {
		if w, is := w.(*appliedWait[Obj]); is && w.of == a.of && w.key == a.key && w.has(a.from) {
			return true
		}
	}
	return false
}

func (w *appliedWait[Obj]) isMet() bool { return w.has(w.from) }

// has reports whether a version was applied that is no older than a revision.
func (w *appliedWait[Obj]) has(revision statedb.Revision) bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.on.applied > 0 && w.on.applied >= revision
}

// Begin implements [core.Need].
func (a *applied[Obj]) Begin() core.Wait {
	n := a.of
	w := &appliedWait[Obj]{applied: a}
	n.mu.Lock()
	on := n.rows[a.key]
	if on == nil {
		on = &awaited[Obj]{row: a.row, known: a.found, found: a.found, from: a.from, changed: make(chan struct{})}
		n.rows[a.key] = on
	}
	if on.found != a.found {
		// What the others have seen has changed.
		on.wake()
		on.found = a.found
	}
	if on.woken {
		on.changed, on.woken, on.from = make(chan struct{}), false, a.from
	}
	on.from = min(on.from, a.from)
	on.waits++
	w.on, w.released = on, on.changed
	ended := n.ended
	n.count()
	n.mu.Unlock()

	// What happens from now on is noted. What has happened since the transaction of the operation, the table shows, or
	// the loop knows.
	switch _, _, s, found := n.present(on, a.key); {
	case ended || found != a.found || s.Kind == status.KindDone:
		w.released = watch.Closed
	case found && n.cfg.Applied != nil:
		n.mu.Lock()
		n.request(a.key)
		n.mu.Unlock()
		n.cfg.Wake()
	}
	return w
}

// present returns the row that the table has for a key, with its status.
func (n *Needs[Obj]) present(on *awaited[Obj], key string) (row Obj, revision statedb.Revision, s status.Status, found bool) {
	txn := n.cfg.Rows.DB.ReadTxn()
	if on.known {
		row, revision, found = n.cfg.Rows.Get(txn, on.row)
	} else {
		row, revision, found = n.cfg.Rows.ByKey(txn, index.Key(key))
	}
	if found {
		s = n.cfg.Status(txn, row, revision)
	}
	return row, revision, s, found
}

// checkRow wakes those who wait for the row of a key if it is applied, or appeared or has gone.
func (n *Needs[Obj]) checkRow(key string) {
	n.mu.Lock()
	on := n.rows[key]
	n.mu.Unlock()
	if on == nil {
		return
	}
	row, revision, s, found := n.present(on, key)
	done := s.Kind == status.KindDone
	applied := found && !done && n.cfg.Applied != nil && n.cfg.Applied(row, revision)
	n.mu.Lock()
	defer n.mu.Unlock()
	if applied {
		on.applied = revision
	}
	if applied || done || found != on.found {
		on.wake()
	}
}

// Released implements [core.Wait].
func (w *appliedWait[Obj]) Released() <-chan struct{} { return w.released }

// Outlives implements [core.Wait]: a version that was applied counts until the object is no longer blocked.
func (w *appliedWait[Obj]) Outlives(others []core.Wait) bool {
	return w.isMet() && !slices.ContainsFunc(others, func(other core.Wait) bool {
		o, is := other.(*appliedWait[Obj])
		return is && o.of == w.of && o.key == w.key
	})
}

// End implements [core.Wait].
func (w *appliedWait[Obj]) End() {
	n := w.of
	n.mu.Lock()
	defer n.mu.Unlock()
	if w.on.waits--; w.on.waits == 0 && n.rows[w.key] == w.on {
		delete(n.rows, w.key)
		n.count()
	}
}

// Needed implements [core.Wait].
func (w *appliedWait[Obj]) Needed(yield func(core.Needed) bool) {
	if !w.isMet() {
		yield(core.Needed{In: w.of, Key: w.key})
	}
}

// Why implements [core.Wait].
func (w *appliedWait[Obj]) Why() string {
	n := w.of
	_, _, s, found := n.present(w.on, w.key)
	switch {
	case !found || w.isMet():
		return ""
	case s.Kind == status.KindUnset:
		return n.NameOf(w.key) + " has no status"
	case s.Kind == status.KindError:
		return n.NameOf(w.key) + " failed: " + s.GetError()
	case s.Kind == status.KindBlocked:
		return n.NameOf(w.key) + " is blocked: " + s.GetError()
	}
	return n.idle()
}
