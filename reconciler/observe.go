// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"iter"

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

// stride is how many changes a cursor goes past in one look: a look is not to hold up what
// is due, or what a second cursor would find.
const stride = 20_000

// observer reads a table's changes, mostly with one cursor, main. It finishes a snapshot of
// the table before it takes the next, so that whatever was pending in a snapshot is
// attempted before a revision of the next is passed. When the target is slow, and changes
// pile up, there is a second cursor: see tip.
type observer[Obj comparable] struct {
	db    *statedb.DB
	table statedb.RWTable[Obj]

	main statedb.ChangeIterator[Obj]
	// snapshot is the revision of the snapshot that main reads, or read last; rest is what
	// it has not read of that, nil at its end. snapshots counts them.
	snapshot  statedb.Revision
	rest      iter.Seq2[statedb.Change[Obj], statedb.Revision]
	snapshots uint64
	// hand is what main has read and not handed over: that for which there was no room,
	// and what a round did not get to.
	hand hand[Obj]
	// revision is that up to which main has handed over all changes, wanted that of the
	// last one that was to be acted on.
	revision, wanted statedb.Revision
	// whole: the transaction of the round has the table as main's snapshot has it. mixed:
	// something that main did not hand over was run since that was taken. slow: an object
	// takes long, on average while main is behind.
	whole, mixed, slow bool
	// ahead is the highest revision of what was run before main had come to it.
	ahead statedb.Revision

	// behind says for how long main has not seen all there is; tip is nil unless there is one.
	behind behind
	tip    *tip[Obj]

	// refreshes counts the objects of this look that were marked for a refresh.
	refreshes int
	// unset counts the changes of objects without a status.
	unset uint64
	// passed are the changes beyond revision that need no looking at.
	passed passed
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

// stale reports whether the version of an item that main handed over may not be the one to
// run, so that it has to be looked up: the item is of an older snapshot than the round, and
// something else may have got ahead of it. A slow target is spared what is outdated.
func (o *observer[Obj]) stale(item *core.Item[Obj]) bool {
	return !o.whole && (o.mixed || o.slow || item.Deleted)
}

// runs notes the revision of an operation, and returns the one that it is called with. What
// main has not come to may have been run already, for a key of which main then reads an older
// deletion, while the key is gone again: that deletion is as good as the latest, but must not
// go back to an older revision. So it has that of the table, now, which is the transaction's
// of the round.
func (o *observer[Obj]) runs(revision statedb.Revision, deleted bool, now statedb.ReadTxn) statedb.Revision {
	if deleted && revision <= o.ahead {
		revision = o.table.Revision(now)
	}
	if revision > o.revision {
		o.ahead = max(o.ahead, revision)
	}
	return revision
}

// observe hands the core the changes up to the snapshot, as many as there is room for.
// The returned channel is closed when there may be more.
func (l *Loop[Obj]) observe(txn statedb.ReadTxn) <-chan struct{} {
	o := &l.observer
	o.refreshes = 0
	if o.tip != nil {
		l.observeTip(txn, l.began)
	}
	watch, done := l.observeMain(txn)
	o.whole = o.snapshot == l.rows.Table.Revision(txn)
	if done && o.whole && (o.tip == nil || l.core.LaneSize(core.Backlog) == 0) {
		o.catchUp()
	} else if !done {
		o.fallBehind(l.began)
	}
	return watch
}

// observeMain hands over what main has in its hand and the rest of its snapshot, or the next
// snapshot. done: it came to the end.
func (l *Loop[Obj]) observeMain(txn statedb.ReadTxn) (watch <-chan struct{}, done bool) {
	o := &l.observer
	held := o.hand.first() != nil
	for c := o.hand.first(); c != nil; c = o.hand.first() {
		if l.core.Full(o.laneOf(c)) {
			return closedWatch, false
		}
		l.handOver(*c)
		o.hand.drop()
	}
	switch {
	case o.rest != nil:
	case held:
		// No round has changes of two snapshots: both may have one of the same key.
		o.revision = max(o.revision, o.snapshot)
		return closedWatch, true
	default:
		changes, watch := o.main.Next(txn)
		select {
		case <-watch:
		default:
			// Nothing changed since the last look. The snapshot need not be the one
			// that was seen then: a commit shows in it before it closes the channel.
			return watch, true
		}
		last := o.snapshot
		o.rest, o.snapshot, o.mixed = changes, l.rows.Table.Revision(txn), false
		l.progress.Took(last, o.snapshot)
		o.snapshots++
	}
	read := 0
	for change, revision := range o.rest {
		if c, wanted := l.wanted(change, false); !wanted {
			o.revision = revision
		} else if l.core.Full(o.laneOf(&c)) {
			o.hand.push(c)
			return closedWatch, false
		} else {
			l.handOver(c)
		}
		if read++; read == stride {
			return closedWatch, false
		}
	}
	o.rest, o.revision = nil, max(o.revision, o.snapshot)
	return closedWatch, true
}

// laneOf returns the lane of a change that main has read. Beside a tip all of these have the
// same, so that what the tip reads does not take the room of any.
func (o *observer[Obj]) laneOf(c *change[Obj]) core.Lane {
	if o.tip != nil {
		return core.Backlog
	}
	return c.lane
}

// handOver hands the core a change that main has read.
func (l *Loop[Obj]) handOver(c change[Obj]) {
	o := &l.observer
	if c.deleted {
		l.pruner.PassDeletion(c.object)
	}
	if c.deleted && o.tip != nil && o.tip.saw(c.revision) {
		l.core.Pass(c.object, c.revision)
	} else {
		l.core.Observe(c.object, c.revision, c.since, c.deleted, o.laneOf(&c))
	}
	o.revision, o.wanted = c.revision, max(o.wanted, c.revision)
}

// takeBack puts items that a round did not get to back where they came from, in the reverse
// of their order: changes that the core does not know into main's hand.
func (l *Loop[Obj]) takeBack(item *core.Item[Obj]) {
	if l.core.Return(item) {
		return
	}
	o := &l.observer
	o.hand.pushFront(change[Obj]{
		object: item.Obj, revision: item.Revision, since: item.Since(), deleted: item.Deleted, lane: item.Lane(),
	})
	o.revision = min(o.revision, item.Revision-1)
	o.fallBehind(l.began)
}

// wanted returns a change as it is handed over, and whether it is this reconciler's to act
// on. Everything else, this and other reconcilers' status writes above all, is passed over
// here. ahead: it was read ahead of main.
func (l *Loop[Obj]) wanted(of statedb.Change[Obj], ahead bool) (c change[Obj], wanted bool) {
	c = change[Obj]{object: of.Object, revision: of.Revision, since: of.Revision, deleted: of.Deleted, lane: core.Deletion}
	if of.Deleted {
		return c, true
	}
	if !l.sharing.looked {
		l.findSharers(of.Object)
	}
	switch s := l.rows.GetStatus(of.Object); s.Kind {
	case status.KindPending:
		c.lane, c.since = core.Backlog, l.owedSince(s, of.Revision, ahead)
		return c, true
	case status.KindRefreshing:
		c.lane, c.since = core.Refresh, l.owedSince(s, of.Revision, ahead)
		l.observer.refreshes++
		return c, true
	case status.KindUnset:
		l.warnUnset(of)
		if l.core.Tracks() {
			l.observeSettled(of, core.SaysNothing)
		}
	case status.KindDone:
		if l.core.Awaits() {
			l.observeSettled(of, core.SaysDone)
		}
	default:
		if l.core.Awaits() {
			l.observeSettled(of, core.SaysFailed)
		}
	}
	return c, false
}

// owedSince returns from which revision on a row with a status is owed: see [progress].
func (l *Loop[Obj]) owedSince(s Status, revision statedb.Revision, ahead bool) statedb.Revision {
	if !l.progress.Marked() {
		return revision
	}
	return l.progress.Since(s.ID, revision, ahead)
}

// observeSettled tells the core of a row that asks for nothing.
func (l *Loop[Obj]) observeSettled(of statedb.Change[Obj], says core.Says) {
	if l.core.ObserveSettled(of.Object, of.Revision, says) {
		l.unblock(of.Object)
		l.objectWaits.touch(l, of.Object)
	}
}

// warnUnset says, once, that the table holds objects that nobody will reconcile.
func (l *Loop[Obj]) warnUnset(change statedb.Change[Obj]) {
	l.observer.unset++
	if l.observer.unset > 1 {
		return
	}
	l.log.Warn("object has no status and is left alone; set it to Pending for it to be reconciled (said once)",
		"table", l.rows.Table.Name(), "key", l.rows.Key(change.Object), "revision", change.Revision)
}

// change is one that a cursor has read.
type change[Obj any] struct {
	object Obj
	// since is the revision from which on it is owed.
	revision, since statedb.Revision
	deleted         bool
	lane            core.Lane
}

// hand is a queue of changes that a cursor has read and not handed over.
type hand[Obj any] struct {
	changes []change[Obj]
	// from is where the first is.
	from int
}

// first returns the first change, nil if there is none.
func (h *hand[Obj]) first() *change[Obj] {
	if h.from == len(h.changes) {
		return nil
	}
	return &h.changes[h.from]
}

// drop drops the first change.
func (h *hand[Obj]) drop() {
	h.changes[h.from] = change[Obj]{}
	h.from++
}

// push puts a change at the end of an empty hand.
func (h *hand[Obj]) push(c change[Obj]) { h.changes, h.from = append(h.changes[:0], c), 0 }

// pushFront puts a change before the first. What a round did not get to comes back in one
// piece: room is made for as much as there is of the rest.
func (h *hand[Obj]) pushFront(c change[Obj]) {
	if h.from == 0 {
		room := len(h.changes) + minRoom
		grown := make([]change[Obj], room+len(h.changes))
		copy(grown[room:], h.changes)
		h.changes, h.from = grown, room
	}
	h.from--
	h.changes[h.from] = c
}

// minRoom is the least room that is made at the front of a hand.
const minRoom = 64
