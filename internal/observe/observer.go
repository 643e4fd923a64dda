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
	"github.com/statekeel/statekeel/status"
)

// Config is the configuration of an Observer. All fields are required.
type Config[Obj any] struct {
	Rows *rows.Rows[Obj]
	// Core takes the changes. The caller begins a round of it before it calls [Observer.Begin].
	Core  *core.Core[Obj]
	Waits Waits
	Hooks[Obj]
}

// Waits are the callers that wait for a revision, see package progress. They may lower the revision
// since which a row counts as not reconciled.
type Waits interface {
	// HasWindows reports whether Since may return a revision below that of the row, for rows of a
	// transaction that began before the call.
	HasWindows() bool
	// Since returns the revision since which a row counts as not reconciled. id is the ID of the
	// row's status.
	Since(id uint64, revision statedb.Revision) statedb.Revision
	// NoteSnapshot is called when the main cursor has reached the end of the snapshot last and
	// takes the next one.
	NoteSnapshot(last, snapshot statedb.Revision)
}

// NoWaits is for rows without a status: each version asks for itself, so a wait for a revision does
// not concern the versions that follow.
type NoWaits struct{}

// HasWindows implements [Waits].
func (NoWaits) HasWindows() bool { return false }

// Since implements [Waits].
func (NoWaits) Since(_ uint64, revision statedb.Revision) statedb.Revision { return revision }

// NoteSnapshot implements [Waits].
func (NoWaits) NoteSnapshot(statedb.Revision, statedb.Revision) {}

// Hooks are functions that the Observer calls, on the goroutine of its caller.
type Hooks[Obj any] struct {
	// FirstUnset is called once, with the first row that has no status.
	FirstUnset func(row Obj, revision statedb.Revision)
	// Seen is called with each row that is handed over, or read and asks for nothing.
	Seen func(row Obj)
	// Deletion is called with each object whose deletion was read. It is handed over if back is 0; otherwise the table has the
	// object again, at this revision.
	Deletion func(obj Obj, back statedb.Revision)
	// Forgotten is called when the core removes the entry of an object because its row asks for no
	// operation. The revision is that of the row.
	Forgotten func(obj Obj, revision statedb.Revision)
}

const (
	// stride bounds the changes that a cursor reads in one pass, so that it delays neither due keys nor the
	// other cursor.
	stride = 20_000
	// chunk is how many changes that ask for an operation a cursor reads at a time.
	chunk = 64
)

// Observer reads the changes of a table, and hands them over one at a time: it is the [core.Source] of its core.
// The main cursor reads a snapshot of the table to its end before it takes the next, so that everything that was
// pending in a snapshot is attempted before [Observer.Revision] reaches the next. An Observer belongs to one
// goroutine. Times are those of one clock, with any zero.
//
// One pass is this sequence of calls: Begin, Next as often as the core can run a change, End.
type Observer[Obj any] struct {
	rows   *rows.Rows[Obj]
	core   *core.Core[Obj]
	hooks  Hooks[Obj]
	reader reader[Obj]

	changes statedb.ChangeIterator[Obj]
	pass    pass
	main    mainCursor[Obj]
	// deletions is the state of the table whose deletions are read while there is a catch-up cursor; nil if all
	// that the last such state had were handed over.
	deletions statedb.ReadTxn
	handed    handed
	// revision is the one up to which all changes were handed over. wanted is that of the last change
	// among them that asked for an operation.
	revision, wanted statedb.Revision
	// early remembers what was applied before the main cursor reached it; catchUp is the catch-up cursor;
	// nil if there is none.
	early   early
	speed   speed
	catchUp *catchUp[Obj]
	// skippable counts changes after revision that need no look.
	skippable skippable
}

// pass is the state of a pass.
type pass struct {
	// txn is the transaction of the pass. more is closed if there is more to read than it has. left is how
	// many changes the cursor of the changes may still read.
	txn  statedb.ReadTxn
	more <-chan struct{}
	left int
	// reads is how often a cursor has read, in all passes.
	reads int
}

// mainCursor is the main cursor.
type mainCursor[Obj any] struct {
	// snapshot is the revision of the snapshot that it reads, or read last. from is its transaction, and rest
	// the unread part of it; nil at its end, and while there is a catch-up cursor. read has what was read of
	// it. While there is a catch-up cursor, read has deletions only.
	snapshot statedb.Revision
	from     statedb.ReadTxn
	rest     iter.Seq2[statedb.Change[Obj], statedb.Revision]
	read     queue[Obj]
	// whole: the transaction of this pass is the snapshot. others: since that was taken, an operation was
	// run on a change that is not from it.
	whole, others bool
}

// reads reports whether the cursor is not at the end of its snapshot.
func (m *mainCursor[Obj]) reads() bool { return m.rest != nil || !m.read.isEmpty() }

// handed is the latest state of the table of which all deletions were handed over, and its revision. state is nil
// if it became known in an earlier pass, or was asked for.
type handed struct {
	state    statedb.ReadTxn
	revision statedb.Revision
}

// New returns an Observer that is not started.
func New[Obj any](cfg Config[Obj]) *Observer[Obj] {
	return &Observer[Obj]{
		rows: cfg.Rows, core: cfg.Core, hooks: cfg.Hooks,
		reader: reader[Obj]{rows: cfg.Rows, core: cfg.Core, waits: cfg.Waits, hooks: cfg.Hooks},
		early:  early{shown: cfg.Rows.Writable != nil},
	}
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
	if o.early.shown {
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

// Begin begins a pass, which reads the changes up to a transaction.
func (o *Observer[Obj]) Begin(txn statedb.ReadTxn) {
	o.pass.txn, o.handed.state, o.pass.left, o.pass.more = txn, nil, stride, watch.Closed
	o.reader.windows = o.reader.waits.HasWindows()
	switch {
	case o.catchUp != nil:
		o.catchUp.begin()
		return
	case !o.main.reads():
		changes, more := o.changes.Next(txn)
		select {
		case <-more:
			o.main.rest, o.main.from = changes, txn
			o.takeSnapshot()
		default:
			// Nothing changed since the last call. Still, the transaction may be newer than that of
			// the last call: a commit shows in it before it closes the channel.
			o.pass.more = more
		}
	}
	o.main.whole = o.main.snapshot == o.rows.Table.Revision(txn)
}

// whileCatchingUp are the lanes of changes while there is a catch-up cursor.
var whileCatchingUp = core.LanesOf(core.Fresh, core.Deletion, core.Backlog)

// Lanes implements [core.Source].
func (o *Observer[Obj]) Lanes() core.Lanes {
	switch {
	case o.catchUp != nil:
		return whileCatchingUp
	case !o.HasWork():
		return 0
	}
	return 1 << o.main.read.first().Lane
}

// Next implements [core.Source]. Without a catch-up cursor the changes come in the order of their revisions.
func (o *Observer[Obj]) Next(lane core.Lane) (change core.Change[Obj], ok bool) {
	if o.catchUp != nil {
		return o.nextWhileCatchingUp(lane)
	}
	for o.HasWork() && o.main.read.first().Lane == lane {
		change = o.main.read.take()
		o.revision = max(o.revision, o.main.read.handedOver())
		if o.handOver(&change) {
			return change, true
		}
	}
	return core.Change[Obj]{}, false
}

// HasWork reports whether a change asks for an operation, and was not handed over. While there is a catch-up
// cursor, it may report true because rows were not read.
func (o *Observer[Obj]) HasWork() bool {
	if o.catchUp != nil {
		return o.catchUp.next != nil || o.catchUp.newest().After < o.rows.Table.Revision(o.pass.txn) || o.readDeletions()
	}
	return !o.main.read.isEmpty() || o.readMain()
}

// readMain reads some of the main cursor's snapshot, and reports whether a change asks for an operation.
func (o *Observer[Obj]) readMain() bool {
	if o.main.rest == nil || o.pass.left == 0 {
		return false
	}
	o.main.read.empty()
	o.pass.reads++
	ended := true
	for change, revision := range o.main.rest {
		o.reader.readChange(&o.main.read, change)
		o.main.read.upTo = revision
		if o.pass.left--; o.pass.left == 0 || len(o.main.read.changes) == chunk {
			ended = false
			break
		}
	}
	if ended {
		o.main.rest, o.main.read.upTo = nil, max(o.main.read.upTo, o.main.snapshot)
	}
	o.revision = max(o.revision, o.main.read.handedOver())
	return !o.main.read.isEmpty()
}

// handOver notes a change that a cursor has read, and reports whether the core gets it. It does not if the change
// asks for nothing any more: a later version was applied, or the object is back in the table after its
// deletion. Then its row says what to do, and may have been read.
func (o *Observer[Obj]) handOver(c *core.Change[Obj]) bool {
	o.wanted = max(o.wanted, c.Revision)
	c.Outdated = !o.main.whole
	if !c.Deleted {
		o.hooks.Seen(c.Obj)
		return !o.appliedEarly(c.Obj, c.Revision)
	}
	var back statedb.Revision
	if !o.main.whole {
		_, back, _ = o.rows.Get(o.pass.txn, c.Obj)
	}
	o.hooks.Deletion(c.Obj, back)
	return back == 0
}

// End ends a pass. The returned channel is closed when the next pass should begin.
func (o *Observer[Obj]) End(now time.Duration) <-chan struct{} {
	done := true
	if o.catchUp == nil {
		if done = !o.main.reads(); done {
			if o.main.from != nil {
				o.handed = handed{o.main.from, o.rows.Table.Revision(o.main.from)}
			}
			o.main.from, o.revision = nil, max(o.revision, o.main.snapshot)
		}
	} else {
		done = o.endWhileCatchingUp(now)
	}
	o.early.passed(o.revision)
	switch waiting := o.core.Index.LaneSize(core.Backlog) > 0; {
	case done && o.main.whole && !waiting:
		o.speed.lag = lag{}
	case !done || waiting:
		o.speed.lag.fallBehind(now)
	}
	o.pass.txn = nil
	return o.pass.more
}

// HandedOver returns the latest state of the table of which every deletion was handed over, or left out because
// the object is back, if it is at hand: if it is the table's of now, or became known in this pass and was
// not returned before. Otherwise, and if it is not needed, it returns nil: an old state is not kept in memory.
func (o *Observer[Obj]) HandedOver(needed bool) (state statedb.ReadTxn) {
	state, o.handed.state = o.handed.state, nil
	if !needed {
		return nil
	}
	if now := o.rows.DB.ReadTxn(); o.rows.Table.Revision(now) == o.handed.revision {
		return now
	}
	return state
}

// HandedOverTo returns the revision of the latest state of the table of which every deletion was handed over, or left
// out because the object is back.
func (o *Observer[Obj]) HandedOverTo() statedb.Revision { return o.handed.revision }

// takeSnapshot makes the transaction of this pass the snapshot of the main cursor.
func (o *Observer[Obj]) takeSnapshot() {
	last := o.main.snapshot
	o.main.snapshot, o.main.others = o.rows.Table.Revision(o.pass.txn), false
	o.reader.waits.NoteSnapshot(last, o.main.snapshot)
}

// Stale reports whether the version of an operation may not be the row in the transaction of this pass, so that the
// caller must look the object up.
//
// The version of a key that has waited may be older than the row, unless all changes were read. Of a later version
// that asks for no operation, the core has noted only that there is one. Any other
// version was handed over in this round. If its snapshot is older than the transaction, it is outdated if
// another operation may have run since, if the target is slow, or if it is a deletion. A slow target is
// spared outdated versions.
func (o *Observer[Obj]) Stale(item *core.Operation[Obj]) bool {
	switch {
	case item.Turn.Waited:
		return o.main.reads() || !o.main.whole || item.Turn.Outdated
	case item.HasEntry():
		return !o.main.whole
	}
	return !o.main.whole && (o.main.others || o.speed.slow || item.Deleted)
}

// CallRevision returns the revision to call the operation for a change with, and records it. An operation may have
// been run on a later revision than the main cursor has read. If the main cursor then reads an
// older deletion of the key, and the key is gone again, the deletion is run as the latest. Its
// revision must not be lower than that of the operation before, so it is the table's revision in
// the transaction.
func (o *Observer[Obj]) CallRevision(revision statedb.Revision, deleted bool, txn statedb.ReadTxn) statedb.Revision {
	if deleted && revision <= o.early.called {
		revision = o.rows.Table.Revision(txn)
	}
	if revision > o.revision {
		o.early.called = max(o.early.called, revision)
	}
	return revision
}

// Since returns the revision since which a row with a status, of the transaction of this pass, is not reconciled.
func (o *Observer[Obj]) Since(s status.Status, revision statedb.Revision) statedb.Revision {
	return o.reader.unreconciledSince(s, revision)
}

// NoteOther records that an operation was run on a change that is not from the main cursor's
// snapshot.
func (o *Observer[Obj]) NoteOther() { o.main.others = true }

// NoteWritten records that the caller wrote n rows, up to the given revision, that need no look.
func (o *Observer[Obj]) NoteWritten(upTo statedb.Revision, n int) {
	o.skippable.add(o.revision, upTo, n)
}

// Reads returns a number that changes when a cursor reads the table, which takes time.
func (o *Observer[Obj]) Reads() int { return o.pass.reads }

// Revision returns the revision up to which all changes were handed over.
func (o *Observer[Obj]) Revision() statedb.Revision { return o.revision }

// LastWanted returns the revision of the last change that asked for an operation, up to
// [Observer.Revision].
func (o *Observer[Obj]) LastWanted() statedb.Revision { return o.wanted }

// Skippable returns approximately how many changes after [Observer.Revision] need no look: those
// that the caller wrote, and those that the catch-up cursor has handed over.
func (o *Observer[Obj]) Skippable() int { return o.skippable.after(o.revision) }

// Unset returns how many changes of rows without a status have been read.
func (o *Observer[Obj]) Unset() uint64 { return o.reader.unset }
