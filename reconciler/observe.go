// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/status"
)

// closedWatch is what a look at the table returns when there is more to see.
var closedWatch = func() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// observer reads a table's changes.
type observer[Obj comparable] struct {
	changes statedb.ChangeIterator[Obj]
	// revision is that up to which all changes have been seen.
	revision statedb.Revision
	// previous is the last snapshot that was seen whole, taken at takenAt; nil if the
	// last look was cut short, and without pruning, when nobody asks for it.
	previous statedb.ReadTxn
	takenAt  time.Duration
	// refreshes counts the objects of this look that were marked for a refresh.
	refreshes int
	// unsetSaid: somebody has been told that there are objects without a status.
	unsetSaid bool
}

// observe hands the core the changes up to the snapshot, as many as there is room for.
// The returned channel is closed when there may be more.
func (l *Loop[Obj]) observe(txn statedb.ReadTxn) <-chan struct{} {
	o := &l.observer
	o.refreshes = 0
	room := l.core.Room()
	if room == 0 {
		return closedWatch
	}
	changes, watch := o.changes.Next(txn)
	select {
	case <-watch:
	default:
		// Nothing changed since the last look. The snapshot need not be the one
		// that was seen then: a commit shows in it before it closes the channel.
		return watch
	}
	previous := o.previous
	o.previous = nil
	for change, revision := range changes {
		o.revision = revision
		if !l.wanted(previous, change) {
			continue
		}
		l.core.Observe(change.Object, revision, change.Deleted)
		if room = l.core.Room(); room == 0 {
			return watch
		}
	}
	o.revision = max(o.revision, l.cfg.Table.Revision(txn))
	if l.set.PruneInterval > 0 {
		o.previous, o.takenAt = txn, l.now()
	}
	return watch
}

// snapshotAge is how long an idle loop holds on to a snapshot: it is one of the whole
// database, and keeps what has been replaced since in any table from being freed.
const snapshotAge = 10 * time.Second

// renewAt returns when the previous snapshot has to be renewed, if there is one.
func (o *observer[Obj]) renewAt() (time.Duration, bool) {
	return o.takenAt + snapshotAge, o.previous != nil
}

// renewSnapshot replaces the previous snapshot by the current one, which has the same
// objects: the table has not changed, or watch would be closed.
func (l *Loop[Obj]) renewSnapshot(watch <-chan struct{}) {
	txn := l.cfg.DB.ReadTxn()
	o := &l.observer
	o.takenAt = l.now()
	select {
	case <-watch:
	default:
		if l.cfg.Table.Revision(txn) == o.revision {
			o.previous = txn
		}
	}
}

// wanted reports whether a change is this reconciler's to act on. Everything else,
// this and other reconcilers' status writes above all, is passed over here.
func (l *Loop[Obj]) wanted(previous statedb.ReadTxn, change statedb.Change[Obj]) bool {
	if change.Deleted {
		return !l.neverSeen(previous, change.Object)
	}
	s := l.cfg.GetStatus(change.Object)
	if s.IsPendingOrRefreshing() {
		if s.Kind == status.KindRefreshing {
			l.observer.refreshes++
		}
		return true
	}
	if s.Kind == status.KindUnset {
		l.warnUnset(change)
	}
	if l.core.Awaits() {
		l.core.ObserveSettled(change.Object, change.Revision)
	}
	return false
}

// neverSeen reports whether a deleted object came and went between two looks at the
// table, so that this reconciler has never applied it. What an earlier process may
// have left in the target under its key is for a prune to find; without pruning, the
// deletion goes through.
func (l *Loop[Obj]) neverSeen(previous statedb.ReadTxn, obj Obj) bool {
	if previous == nil || l.core.TracksKeyOf(obj) {
		return false
	}
	_, _, found := l.cfg.Table.Get(previous, l.indexer.QueryFromObject(obj))
	return !found
}

// warnUnset says, once, that the table holds objects that nobody will reconcile.
func (l *Loop[Obj]) warnUnset(change statedb.Change[Obj]) {
	if l.observer.unsetSaid {
		return
	}
	l.observer.unsetSaid = true
	l.log.Warn("object has no status and is left alone; set it to Pending for it to be reconciled (said once)",
		"table", l.cfg.Table.Name(), "key", l.indexer.ObjectToKey(change.Object), "revision", change.Revision)
}
