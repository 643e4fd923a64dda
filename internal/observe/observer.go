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
	// Deletion is called with each object whose deletion the main cursor hands over.
	Deletion func(Obj)
	// EarlyDeletion is called with each object whose deletion the catch-up cursor hands over.
	EarlyDeletion func(Obj)
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

	main statedb.ChangeIterator[Obj]
	// snapshot is the revision of the snapshot that the main cursor reads, or read last. rest is
	// the unread part of it; nil at its end. snapshots counts the snapshots.
	snapshot  statedb.Revision
	rest      iter.Seq2[statedb.Change[Obj], statedb.Revision]
	snapshots uint64
	// leftover has the changes that the main cursor has read and the core does not have: there was
	// no room for them, or a round did not reach them.
	leftover queue[Obj]
	// revision is the one up to which the main cursor has handed over all changes. wanted is that
	// of the last change among them that asked for an operation.
	revision, wanted statedb.Revision
	// whole: the transaction of the last call of Observe is the main cursor's snapshot. others:
	// since that snapshot was taken, an operation was run on a change that is not from it. slow:
	// objects take long on average while the main cursor is behind. upToDate: that call handed over all
	// changes up to its transaction.
	whole, others, slow, upToDate bool
	// ahead is the highest revision of an operation that ran before the main cursor reached it. before
	// remembers which versions were dealt with by then; nil if the rows show it.
	ahead  statedb.Revision
	before *ahead

	// lag describes how the main cursor is behind. each is how long an object takes. catchUp is the
	// catch-up cursor; nil if there is none.
	lag     lag
	each    time.Duration
	catchUp *catchUp[Obj]
	// opening gets the iterator of the next catch-up cursor when it is open; nil if none is being opened.
	opening chan opened[Obj]

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
		o.before = &ahead{}
	}
	return o
}

// Start begins to observe the table. It returns an error if the table's changes cannot be opened, or
// if ctx ends before the table is unlocked. On success, the caller calls [Observer.Stop] at the end.
func (o *Observer[Obj]) Start(ctx context.Context) (err error) {
	done := make(chan opened[Obj], 1)
	go func() { done <- o.open() }()
	select {
	case is := <-done:
		o.main = is.changes
		return is.err
	case <-ctx.Done():
		go closeWhenOpen(done)
		return ctx.Err()
	}
}

// stopTime is how long [Observer.Stop] waits for the lock of the table.
const stopTime = 100 * time.Millisecond

// Stop closes the cursors, which locks the table for a moment. If the rows carry no status, and
// another part of the program keeps the table locked, that is done when the table is unlocked, but
// Stop returns earlier: the owner of the table may be waiting for the end of the loop.
func (o *Observer[Obj]) Stop() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		o.main.Close()
		if o.catchUp != nil {
			o.catchUp.deletions.Close()
		}
		if o.opening != nil {
			closeWhenOpen(o.opening)
		}
	}()
	if o.before == nil {
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

// opened is an iterator of a table's changes, which begins with all its rows, and the revision of the table.
type opened[Obj any] struct {
	changes statedb.ChangeIterator[Obj]
	at      statedb.Revision
	err     error
}

// open opens an iterator. It waits for the lock of the table.
func (o *Observer[Obj]) open() (is opened[Obj]) {
	wtxn := o.rows.DB.WriteTxn(o.rows.Table)
	defer wtxn.Commit()
	is.changes, is.err = o.rows.Table.Changes(wtxn)
	is.at = o.rows.Table.Revision(wtxn)
	return is
}

// closeWhenOpen closes an iterator as soon as it is open.
func closeWhenOpen[Obj any](opening <-chan opened[Obj]) {
	if is := <-opening; is.err == nil {
		is.changes.Close()
	}
}

// Observe hands the core the changes up to the transaction, as many as the core has room for. The
// returned channel is closed when Observe should be called again.
func (o *Observer[Obj]) Observe(txn statedb.ReadTxn, now time.Duration) <-chan struct{} {
	o.refreshes, o.marked = 0, o.waits.Marked()
	if o.catchUp != nil {
		o.readCatchUp(txn, now)
	}
	more, done := o.readMain(txn)
	if o.before != nil {
		o.before.passed(o.revision)
	}
	o.whole = o.snapshot == o.rows.Table.Revision(txn)
	o.upToDate = done && o.whole && o.catchUp == nil
	if done && o.whole && (o.catchUp == nil || o.core.LaneSize(core.Backlog) == 0) {
		o.endCatchUp()
	} else if !done {
		o.fallBehind(now)
	}
	return more
}

// readMain hands over the leftover changes of the main cursor, and then the rest of its snapshot or
// the next snapshot. done reports that the cursor has reached the end of the snapshot.
func (o *Observer[Obj]) readMain(txn statedb.ReadTxn) (more <-chan struct{}, done bool) {
	had := o.Leftover()
	for c := o.leftover.first(); c != nil; c = o.leftover.first() {
		if o.core.Full(o.laneOf(c)) {
			return watch.Closed, false
		}
		o.handOver(*c, txn)
		o.leftover.drop()
	}
	switch {
	case o.rest != nil:
	case had:
		// A round never has changes of two snapshots: both may have a change of the same key.
		o.revision = max(o.revision, o.snapshot)
		return watch.Closed, true
	default:
		changes, more := o.main.Next(txn)
		select {
		case <-more:
		default:
			// Nothing changed since the last call. Still, the transaction may be newer than that of
			// the last call: a commit shows in it before it closes the channel.
			return more, true
		}
		last := o.snapshot
		o.rest, o.snapshot, o.others = changes, o.rows.Table.Revision(txn), false
		o.waits.NoteSnapshot(last, o.snapshot)
		o.snapshots++
	}
	read := 0
	for change, revision := range o.rest {
		if c, wanted := o.read(change, false); !wanted {
			o.revision = revision
		} else if o.core.Full(o.laneOf(&c)) {
			o.leftover.push(c)
			return watch.Closed, false
		} else {
			o.handOver(c, txn)
		}
		if read++; read == stride {
			return watch.Closed, false
		}
	}
	o.rest, o.revision = nil, max(o.revision, o.snapshot)
	return watch.Closed, true
}

// laneOf returns the lane of a change that the main cursor has read. While there is a catch-up
// cursor that is always Backlog, so that the lanes of the other cursor keep their room.
func (o *Observer[Obj]) laneOf(c *change[Obj]) core.Lane {
	if o.catchUp != nil {
		return core.Backlog
	}
	return c.lane
}

// handOver hands the core a change that the main cursor has read.
func (o *Observer[Obj]) handOver(c change[Obj], txn statedb.ReadTxn) {
	if c.deleted {
		o.hooks.Deletion(c.object)
	}
	dealtWith := c.deleted && o.catchUp != nil && o.catchUp.sawDeletion(c.revision) || o.overtaken(c, txn)
	switch {
	case dealtWith && c.deleted:
		o.core.ObserveSeenDeletion(c.object, c.revision)
	case !dealtWith || o.core.TracksKeyOf(c.object):
		o.core.Observe(c.object, c.revision, c.since, c.deleted, o.laneOf(&c))
	}
	o.revision, o.wanted = c.revision, max(o.wanted, c.revision)
}

// TakeBack takes back an item that a round did not reach: into the core or, if the core has no
// entry for its key, before the leftover changes. Take several items back in reverse order.
func (o *Observer[Obj]) TakeBack(item *core.Operation[Obj], now time.Duration) {
	if o.core.PutBack(item) {
		return
	}
	o.leftover.pushFront(change[Obj]{
		object: item.Obj, revision: item.Revision, since: item.Since(), deleted: item.Deleted, lane: item.Lane(),
	})
	o.revision = min(o.revision, item.Revision-1)
	o.fallBehind(now)
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
		return !o.whole || o.catchUp != nil
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

// Leftover reports whether the main cursor has read changes that the core does not have.
func (o *Observer[Obj]) Leftover() bool { return o.leftover.first() != nil }

// Revision returns the revision up to which the main cursor has handed over all changes.
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
