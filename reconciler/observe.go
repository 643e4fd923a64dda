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

// observer reads a table's changes, mostly with one cursor.
//
// When the target is slow the changes pile up, and what is written now would have to
// wait until everything before it has been applied. Then there are two: main goes on with
// the backlog, and tip begins where the table is now. When main has come to where tip
// began, tip takes its place. Nothing of the backlog is copied: it stays in the table.
type observer[Obj comparable] struct {
	db    *statedb.DB
	table statedb.RWTable[Obj]

	main cursor[Obj]
	tip  *cursor[Obj]
	// behindSince is when main last began to not see all there was, taken is how many
	// changes it has seen since.
	behind      bool
	behindSince time.Duration
	taken       int

	// previous is the last snapshot that was seen whole, taken at takenAt; nil if the
	// last look was cut short, and without pruning, when nobody asks for it.
	previous statedb.ReadTxn
	takenAt  time.Duration
	// refreshes counts the objects of this look that were marked for a refresh.
	refreshes int
	// unsetSaid: somebody has been told that there are objects without a status.
	unsetSaid bool
}

// cursor is a place in the changes of a table.
type cursor[Obj comparable] struct {
	changes statedb.ChangeIterator[Obj]
	// The cursor has seen the changes after from up to revision.
	from, revision statedb.Revision
	// arrived: it has gone past everything up to from, which it has to, but passes over.
	arrived bool
}

// start begins to observe.
func (o *observer[Obj]) start(db *statedb.DB, table statedb.RWTable[Obj]) (err error) {
	o.db, o.table = db, table
	o.main, err = o.newCursor()
	o.main.from, o.main.arrived = 0, true
	return err
}

// newCursor returns a cursor that begins where the table is now.
func (o *observer[Obj]) newCursor() (c cursor[Obj], err error) {
	wtxn := o.db.WriteTxn(o.table)
	defer wtxn.Commit()
	c.from = o.table.Revision(wtxn)
	c.changes, err = o.table.Changes(wtxn)
	return c, err
}

func (o *observer[Obj]) stop() {
	o.main.changes.Close()
	o.dropTip()
}

// saw reports whether the change with a revision has been observed.
func (o *observer[Obj]) saw(revision statedb.Revision) bool {
	return revision <= o.main.revision ||
		o.tip != nil && revision > o.tip.from && revision <= o.tip.revision
}

// observe hands the core the changes up to the snapshot, as many as there is room for.
// The returned channel is closed when there may be more.
func (l *Loop[Obj]) observe(txn statedb.ReadTxn, now time.Duration) <-chan struct{} {
	o := &l.observer
	o.refreshes = 0
	if l.core.Room() <= 0 {
		l.fallBehind(now)
		return closedWatch
	}
	if o.tip != nil {
		l.observeTip(txn)
	}
	return l.observeMain(txn, now)
}

func (l *Loop[Obj]) observeMain(txn statedb.ReadTxn, now time.Duration) <-chan struct{} {
	o := &l.observer
	changes, watch := o.main.changes.Next(txn)
	select {
	case <-watch:
	default:
		// Nothing changed since the last look. The snapshot need not be the one
		// that was seen then: a commit shows in it before it closes the channel.
		return watch
	}
	previous := o.previous
	o.previous = nil
	if l.room() <= 0 {
		l.fallBehind(now)
		return watch
	}
	for change, revision := range changes {
		if o.tip != nil && revision > o.tip.from {
			o.promoteTip()
			return closedWatch
		}
		o.main.revision = revision
		o.taken++
		lane, wanted := l.wanted(previous, change)
		if !wanted {
			continue
		}
		if o.tip != nil {
			lane = core.Backlog
		}
		l.core.Observe(change.Object, revision, change.Deleted, lane)
		if l.room() <= 0 {
			l.fallBehind(now)
			return watch
		}
	}
	o.main.revision = max(o.main.revision, l.cfg.Table.Revision(txn))
	o.behind = false
	if o.tip != nil {
		// There is nothing after the backlog that the tip could have seen.
		o.dropTip()
	}
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

const (
	// behindTime is how long main has to be behind for there to be a tip, and quick how
	// many changes in a millisecond are so many that the backlog is not worth it:
	// a second cursor has to go past every object of the table once.
	behindTime = 20 * time.Millisecond
	quick      = 50
	// behindMost is how long main may be behind at any speed.
	behindMost = 5 * time.Second
	// stride is how many objects the tip goes past in a round.
	stride = 20_000
)

// fallBehind notes that main has not seen all there is, and begins a tip if that is so for
// long and the target is slow.
func (l *Loop[Obj]) fallBehind(now time.Duration) {
	o := &l.observer
	if !o.behind {
		o.behind, o.behindSince, o.taken = true, now, 0
		return
	}
	since := now - o.behindSince
	slow := int64(o.taken-l.set.RoundSize) < quick*since.Milliseconds()
	if o.tip != nil || since < behindTime || !slow && since < behindMost {
		return
	}
	tip, err := o.newCursor()
	if err != nil {
		l.log.Error("cannot observe the table a second time; what is new waits for what is old", "error", err)
		o.behind = false
		return
	}
	tip.revision = tip.from
	o.tip = &tip
}

// observeTip hands the core the latest changes.
func (l *Loop[Obj]) observeTip(txn statedb.ReadTxn) {
	o := &l.observer
	if l.core.RoomFor(false) <= 0 {
		return
	}
	changes, watch := o.tip.changes.Next(txn)
	select {
	case <-watch:
	default:
		return
	}
	passed := 0
	for change, revision := range changes {
		if revision <= o.tip.from {
			if passed++; passed == stride {
				return
			}
			continue
		}
		o.tip.arrived = true
		o.tip.revision = revision
		lane, wanted := l.wanted(nil, change)
		if !wanted {
			continue
		}
		l.core.Observe(change.Object, revision, change.Deleted, lane)
		if l.core.RoomFor(false) <= 0 {
			return
		}
	}
	o.tip.arrived = true
	o.tip.revision = max(o.tip.revision, l.cfg.Table.Revision(txn))
}

// promoteTip makes the tip the main cursor, which has come to where the tip began.
func (o *observer[Obj]) promoteTip() {
	if !o.tip.arrived {
		o.dropTip()
		return
	}
	o.main.changes.Close()
	o.main, o.tip = *o.tip, nil
	o.behind = false
}

func (o *observer[Obj]) dropTip() {
	if o.tip != nil {
		o.tip.changes.Close()
		o.tip = nil
	}
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
		if l.cfg.Table.Revision(txn) == o.main.revision {
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
	if l.observer.unsetSaid {
		return
	}
	l.observer.unsetSaid = true
	l.log.Warn("object has no status and is left alone; set it to Pending for it to be reconciled (said once)",
		"table", l.cfg.Table.Name(), "key", l.indexer.ObjectToKey(change.Object), "revision", change.Revision)
}
