// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/status"
)

// closedWatch is what a look at the table returns when there is more to see.
var closedWatch = func() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// observer reads a table's changes, mostly with one cursor. When the target is slow, and
// changes pile up, there is a second: see tip.
type observer[Obj comparable] struct {
	db    *statedb.DB
	table statedb.RWTable[Obj]

	main statedb.ChangeIterator[Obj]
	// revision is that up to which main has seen all changes.
	revision statedb.Revision
	// behind is nil while main sees all there is, tip unless there is one.
	behind *behind[Obj]
	tip    *tip[Obj]

	// previous is the last snapshot that was seen whole, taken at takenAt; nil if the
	// last look was cut short, and without pruning, when nobody asks for it.
	previous statedb.ReadTxn
	takenAt  time.Duration
	// refreshes counts the objects of this look that were marked for a refresh.
	refreshes int
	// unset counts the changes of objects without a status.
	unset uint64
	// passed are the changes beyond revision that need no looking at.
	passed passed
	// quick: the last time that main was behind it caught up without a tip.
	quick bool
}

// start begins to observe.
func (o *observer[Obj]) start(db *statedb.DB, table statedb.RWTable[Obj]) (err error) {
	o.db, o.table = db, table
	o.main, _, err = o.open()
	return err
}

// open returns the changes of the table, which begin with all that is in it, and its
// revision.
func (o *observer[Obj]) open() (changes statedb.ChangeIterator[Obj], at statedb.Revision, err error) {
	wtxn := o.db.WriteTxn(o.table)
	defer wtxn.Commit()
	changes, err = o.table.Changes(wtxn)
	return changes, o.table.Revision(wtxn), err
}

func (o *observer[Obj]) stop() {
	o.main.Close()
	o.catchUp()
}

// saw reports whether the version of an object with a revision has been observed.
func (o *observer[Obj]) saw(revision statedb.Revision) bool {
	return revision <= o.revision || o.tip != nil && o.tip.saw(revision)
}

// observe hands the core the changes up to the snapshot, as many as there is room for.
// The returned channel is closed when there may be more.
func (l *Loop[Obj]) observe(txn statedb.ReadTxn, now time.Duration) <-chan struct{} {
	o := &l.observer
	o.refreshes = 0
	if o.tip != nil {
		l.observeTip(txn, now)
	}
	if l.room() <= 0 {
		l.fallBehind(txn, now)
		return closedWatch
	}
	return l.observeMain(txn, now)
}

func (l *Loop[Obj]) observeMain(txn statedb.ReadTxn, now time.Duration) <-chan struct{} {
	o := &l.observer
	changes, watch := o.main.Next(txn)
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
		if o.behind != nil {
			o.behind.taken++
		}
		if o.tip != nil && o.tip.sawChange(change) {
			continue
		}
		lane, wanted := l.wanted(previous, change)
		if !wanted {
			continue
		}
		if o.tip != nil {
			lane = core.Backlog
		}
		l.core.Observe(change.Object, revision, change.Deleted, lane)
		if l.room() <= 0 {
			l.fallBehind(txn, now)
			return watch
		}
	}
	o.revision = max(o.revision, l.cfg.Table.Revision(txn))
	o.catchUp()
	if l.set.PruneInterval > 0 {
		o.previous, o.takenAt = txn, l.now()
	}
	return watch
}

// room returns how many more changes main may hand to the core.
func (l *Loop[Obj]) room() int {
	if l.observer.tip != nil {
		return l.core.RoomFor(true)
	}
	return l.core.Room()
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

// wanted reports whether a change is this reconciler's to act on, and by which lane.
// Everything else, this and other reconcilers' status writes above all, is passed over
// here.
func (l *Loop[Obj]) wanted(previous statedb.ReadTxn, change statedb.Change[Obj]) (core.Lane, bool) {
	if change.Deleted {
		return core.Deletion, !l.neverSeen(previous, change.Object)
	}
	switch l.cfg.GetStatus(change.Object).Kind {
	case status.KindPending:
		return core.Fresh, true
	case status.KindRefreshing:
		l.observer.refreshes++
		return core.Refresh, true
	case status.KindUnset:
		l.warnUnset(change)
	}
	if l.core.Awaits() {
		l.core.ObserveSettled(change.Object, change.Revision)
	}
	return 0, false
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
	l.observer.unset++
	if l.observer.unset > 1 {
		return
	}
	l.log.Warn("object has no status and is left alone; set it to Pending for it to be reconciled (said once)",
		"table", l.cfg.Table.Name(), "key", l.indexer.ObjectToKey(change.Object), "revision", change.Revision)
}
