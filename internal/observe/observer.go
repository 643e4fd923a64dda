// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

import (
	"context"
	"iter"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/watch"
)

// Config is the configuration of an Observer. All fields are required.
type Config[Obj comparable] struct {
	Rows *rows.Rows[Obj]
	// Core receives the changes. The caller begins a round of it before it calls
	// [Observer.Observe].
	Core  *core.Core[Obj]
	Waits Waits
	Hooks[Obj]
}

// Waits are the callers that wait for a revision, see package progress. They may lower the revision
// since which a row counts as not reconciled.
type Waits interface {
	// Marked reports whether Since may return a revision below that of the row, for rows of a
	// transaction that began before the call.
	Marked() bool
	// Since returns the revision since which a row counts as not reconciled. id is the ID of the
	// row's status. ahead reports that the main cursor has not read the row yet.
	Since(id uint64, revision statedb.Revision, ahead bool) statedb.Revision
	// NoteSnapshot is called when the main cursor has reached the end of the snapshot last and
	// takes the next one.
	NoteSnapshot(last, snapshot statedb.Revision)
}

// NoWaits is for rows without a status: each version asks for itself, so a wait for a revision does
// not concern the versions that follow.
type NoWaits struct{}

// Marked implements [Waits].
func (NoWaits) Marked() bool { return false }

// Since implements [Waits].
func (NoWaits) Since(_ uint64, revision statedb.Revision, _ bool) statedb.Revision { return revision }

// NoteSnapshot implements [Waits].
func (NoWaits) NoteSnapshot(statedb.Revision, statedb.Revision) {}

// Hooks are functions that the Observer calls, on the goroutine of its caller.
type Hooks[Obj any] struct {
	// FirstUnset is called once, with the first row that has no status.
	FirstUnset func(row Obj, revision statedb.Revision)
	// Deletion is called with each object whose deletion is handed over.
	Deletion func(Obj)
	// Unread is called with each object that a cursor does not hand over because there is a later change,
	// which is unread: the object is in the table again after a deletion, or was deleted. The revision of the
	// change is upTo, or lower.
	Unread func(obj Obj, upTo statedb.Revision)
	// Forgotten is called when the core removes the entry of an object because its row asks for no
	// operation.
	Forgotten func(Obj)
}

// stride bounds the changes that a cursor reads in one call, so that a call delays neither due keys
// nor the other cursor.
const stride = 20_000

// Observer reads the changes of a table. The main cursor reads a snapshot of the table to its end
// before it takes the next, so that everything that was pending in a snapshot is attempted before
// [Observer.Revision] reaches the next. An Observer belongs to one goroutine. Times are those of
// one clock, with any zero.
type Observer[Obj comparable] struct {
	rows  *rows.Rows[Obj]
	core  *core.Core[Obj]
	waits Waits
	hooks Hooks[Obj]

	changes statedb.ChangeIterator[Obj]
	// snapshot is the revision of the snapshot that the main cursor reads, or read last. from is its
	// transaction, and rest the unread part of it; nil at its end, and while there is a catch-up cursor.
	// snapshots counts the snapshots.
	snapshot  statedb.Revision
	from      statedb.ReadTxn
	rest      iter.Seq2[statedb.Change[Obj], statedb.Revision]
	snapshots uint64
	// held is a change that was read and for which there was no room; valid if holding.
	held    change[Obj]
	holding bool
	// revision is the one up to which all changes were handed over. wanted is that of the last change
	// among them that asked for an operation.
	revision, wanted statedb.Revision
	// whole: the transaction of the last call of Observe is the main cursor's snapshot. others:
	// since that snapshot was taken, an operation was run on a change that is not from it. slow:
	// objects take long on average while the main cursor is behind. upToDate: that call handed over all
	// changes up to its transaction. full: it has left a change for which there was no room.
	whole, others, slow, upToDate, full bool
	// ahead is the highest revision of an operation that ran before the main cursor reached it. early
	// remembers which versions were applied by then; nil if the rows show it.
	ahead statedb.Revision
	early *early

	// lag describes how the main cursor is behind. each is how long an object takes. catchUp is the
	// catch-up cursor; nil if there is none.
	lag     lag
	each    time.Duration
	catchUp *catchUp[Obj]

	// marked: in this call of Observe the waits may lower the revision since which a row is not
	// reconciled.
	marked bool
	// refreshes counts the objects read in this call of Observe that were marked for a refresh.
	refreshes int
	// unset counts the read changes of rows without a status.
	unset uint64
	// skippable counts changes after revision that need no look.
	skippable skippable
}

// New returns an Observer that is not started.
func New[Obj comparable](cfg Config[Obj]) *Observer[Obj] {
	o := &Observer[Obj]{rows: cfg.Rows, core: cfg.Core, waits: cfg.Waits, hooks: cfg.Hooks}
	if cfg.Rows.Writable == nil {
		o.early = &early{}
	}
	return o
}

// opened is an iterator of a table's changes, or the error.
type opened[Obj any] struct {
	changes statedb.ChangeIterator[Obj]
	err     error
}

// Start begins to observe the table. It returns an error if the table's changes cannot be opened, or
// if ctx ends before the table is unlocked. On success, the caller calls [Observer.Stop] at the end.
func (o *Observer[Obj]) Start(ctx context.Context) error {
	opening := make(chan opened[Obj], 1)
	go func() {
		wtxn := o.rows.DB.WriteTxn(o.rows.Table)
		defer wtxn.Commit()
		changes, err := o.rows.Table.Changes(wtxn)
		opening <- opened[Obj]{changes, err}
	}()
	select {
	case is := <-opening:
		o.changes = is.changes
		return is.err
	case <-ctx.Done():
		go func() {
			if is := <-opening; is.err == nil {
				is.changes.Close()
			}
		}()
		return ctx.Err()
	}
}

// stopTime is how long [Observer.Stop] waits for the lock of the table.
const stopTime = 100 * time.Millisecond

// Stop closes the cursors, which locks the table for a moment. If the rows carry no status, and
// another part of the program keeps the table locked, that is done when the table is unlocked, but
// Stop returns earlier: the owner of the table may be waiting for the end of the loop.
func (o *Observer[Obj]) Stop() {
	if o.catchUp != nil {
		o.catchUp.endSnapshot()
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		o.changes.Close()
	}()
	if o.early == nil {
		<-closed
		return
	}
	late := time.NewTimer(stopTime)
	defer late.Stop()
	select {
	case <-closed:
	case <-late.C:
	}
}

// Observe hands the core the changes up to the transaction, as many as the core has room for. The
// returned channel is closed when Observe should be called again.
func (o *Observer[Obj]) Observe(txn statedb.ReadTxn, now time.Duration) <-chan struct{} {
	o.refreshes, o.marked, o.full = 0, o.waits.Marked(), false
	var more <-chan struct{}
	var done bool
	if o.catchUp == nil {
		more, done = o.readMain(txn)
		o.whole = o.snapshot == o.rows.Table.Revision(txn)
	} else {
		more, done = o.catchUpWith(txn, now)
	}
	if o.early != nil {
		o.early.passed(o.revision)
	}
	o.upToDate = done && o.whole
	switch waiting := o.core.LaneSize(core.Backlog) > 0; {
	case o.upToDate && !waiting:
		o.lag = lag{}
	case !done || waiting:
		o.fallBehind(now)
	}
	return more
}

// readMain hands over the rest of the main cursor's snapshot, or the next snapshot. done reports that the
// cursor has reached the end of the snapshot.
func (o *Observer[Obj]) readMain(txn statedb.ReadTxn) (more <-chan struct{}, done bool) {
	if o.rest == nil {
		changes, more := o.changes.Next(txn)
		select {
		case <-more:
		default:
			// Nothing changed since the last call. Still, the transaction may be newer than that of
			// the last call: a commit shows in it before it closes the channel.
			return more, true
		}
		o.rest, o.from = changes, txn
		o.takeSnapshot(txn)
	}
	if !o.handOverHeld(txn) {
		return watch.Closed, false
	}
	read := 0
	for change, revision := range o.rest {
		if c, wanted := o.read(change, false); !wanted {
			o.revision = revision
		} else if !o.handOver(c, txn) {
			o.held, o.holding = c, true
			return watch.Closed, false
		}
		if read++; read == stride {
			return watch.Closed, false
		}
	}
	o.rest, o.from, o.revision = nil, nil, max(o.revision, o.snapshot)
	return watch.Closed, true
}

// takeSnapshot makes a transaction the snapshot of the main cursor.
func (o *Observer[Obj]) takeSnapshot(txn statedb.ReadTxn) {
	last := o.snapshot
	o.snapshot, o.others = o.rows.Table.Revision(txn), false
	o.snapshots++
	o.waits.NoteSnapshot(last, o.snapshot)
}

// handOverHeld hands over the change that is held. It returns false if there is still no room for it.
func (o *Observer[Obj]) handOverHeld(txn statedb.ReadTxn) bool {
	if o.holding && !o.handOver(o.held, txn) {
		return false
	}
	o.held, o.holding = change[Obj]{}, false
	return true
}

// handOver hands the core a change. It returns false if there is no room.
func (o *Observer[Obj]) handOver(c change[Obj], txn statedb.ReadTxn) bool {
	if !o.hasRoom(c.lane) {
		return false
	}
	if c.deleted {
		o.hooks.Deletion(c.object)
	}
	if !o.dropOutdated(c, txn) {
		o.core.Observe(c.object, c.revision, c.since, c.deleted, c.lane)
	}
	if o.catchUp == nil {
		o.revision = c.revision
	}
	o.wanted = max(o.wanted, c.revision)
	return true
}

// hasRoom reports whether a lane of the core has room, and records in full if it has none.
func (o *Observer[Obj]) hasRoom(lane core.Lane) bool {
	full := o.core.Full(lane)
	o.full = o.full || full
	return !full
}

// dropOutdated reports whether a change is dropped, because it asks for nothing any more, and tells of the later
// one. While it was held, a later version may have been applied. A deletion that may not be from the given
// transaction may be followed by a row, which says what to do, and may have been read.
func (o *Observer[Obj]) dropOutdated(c change[Obj], txn statedb.ReadTxn) bool {
	switch {
	case !c.deleted:
		return o.holding && o.appliedEarly(c.object, c.revision)
	case !o.holding && (o.catchUp != nil || o.snapshot == o.rows.Table.Revision(txn)):
		return false
	}
	_, revision, found := o.rows.Get(txn, c.object)
	if found {
		o.hooks.Unread(c.object, revision)
	}
	return found
}

// Stale reports whether the version of an item may not be the row in the transaction of the last call of
// Observe, so that the caller must look the object up.
//
// The version of a key that has waited may be older than the row, unless all changes have been read and
// each of them is handed over: where the rows carry a status, writes of other fields are not. Any other
// version was read in this round. If its snapshot is older than the transaction, it is outdated if
// another operation may have run since, if the target is slow, or if it is a deletion. A slow target is
// spared outdated versions.
func (o *Observer[Obj]) Stale(item *core.Operation[Obj]) bool {
	switch {
	case item.Again:
		return !o.upToDate || o.rows.Writable != nil
	case item.HasEntry():
		return !o.whole
	}
	return !o.whole && (o.others || o.slow || item.Deleted)
}

// RevisionFor returns the revision to call the operation for a change with. An operation may have
// been run on a later revision than the main cursor has read. If the main cursor then reads an
// older deletion of the key, and the key is gone again, the deletion is run as the latest. Its
// revision must not be lower than that of the operation before, so it is the table's revision in
// the transaction.
func (o *Observer[Obj]) RevisionFor(revision statedb.Revision, deleted bool, txn statedb.ReadTxn) statedb.Revision {
	if deleted && revision <= o.ahead {
		return o.rows.Table.Revision(txn)
	}
	return revision
}

// NoteRevision records the revision that an operation is called with.
func (o *Observer[Obj]) NoteRevision(revision statedb.Revision) {
	if revision > o.revision {
		o.ahead = max(o.ahead, revision)
	}
}

// NoteOther records that an operation was run on a change that is not from the main cursor's
// snapshot.
func (o *Observer[Obj]) NoteOther() { o.others = true }

// NoteWritten records that the caller wrote n rows, up to the given revision, that need no look.
func (o *Observer[Obj]) NoteWritten(upTo statedb.Revision, n int) {
	o.skippable.add(o.revision, upTo, n)
}

// Full reports whether the last call of Observe has left a change for which the core had no room.
func (o *Observer[Obj]) Full() bool { return o.full }

// Revision returns the revision up to which all changes were handed over.
func (o *Observer[Obj]) Revision() statedb.Revision { return o.revision }

// LastWanted returns the revision of the last change that asked for an operation, up to
// [Observer.Revision].
func (o *Observer[Obj]) LastWanted() statedb.Revision { return o.wanted }

// Snapshots returns how many snapshots the main cursor has taken. That is the number of the
// snapshot that it reads.
func (o *Observer[Obj]) Snapshots() uint64 { return o.snapshots }

// Skippable returns approximately how many changes after [Observer.Revision] need no look: those
// that the caller wrote, and those that the catch-up cursor has handed over.
func (o *Observer[Obj]) Skippable() int { return o.skippable.after(o.revision) }

// Refreshes returns how many objects read in the last call of Observe were marked for a refresh.
func (o *Observer[Obj]) Refreshes() int { return o.refreshes }

// Unset returns how many changes of rows without a status have been read.
func (o *Observer[Obj]) Unset() uint64 { return o.unset }
