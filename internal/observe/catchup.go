// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

import (
	"math"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
)

// catchUp is the catch-up cursor: it reads what is newer than the main cursor's snapshot. When the
// target is slow and changes pile up, a new change would otherwise wait until everything before it
// has been applied. The main cursor goes on with its snapshot; the catch-up cursor begins at the
// snapshot's end.
//
// It copies nothing and keeps no list of what it has read. When the main cursor reads a change that
// the catch-up cursor handed over, either the core has an entry for it, or it is reconciled and the
// row shows that. So the catch-up cursor may leave out what it has no room for: the main cursor's
// next snapshot has it.
//
// Objects are read by revision. Deletions are not in that index, so they are read from a change
// iterator. A new iterator has no earlier deletions, and has to go past every object of the table
// once; that takes 0.1 microseconds an object, and is done in small steps. For deletions the range
// of revisions that was read is stored, since no row shows that a deletion was carried out.
type catchUp[Obj comparable] struct {
	// Objects were read, or left out, up to the revision upTo. None after from were left out.
	from, upTo statedb.Revision
	// lagging: the cursor has not been able to hand over all objects since laggingSince.
	lagging      bool
	laggingSince time.Duration

	deletions statedb.ChangeIterator[Obj]
	// The deletions with revisions above deletedAfter and up to deletedUpTo were read.
	deletedAfter, deletedUpTo statedb.Revision
	// held is a deletion that was read and that there was no room for; valid if holding.
	held    change[Obj]
	holding bool
}

const (
	// behindTime is how long the main cursor must be behind before a catch-up cursor is opened, and
	// how long the catch-up cursor must be behind before it leaves out what it has not read.
	behindTime = 10 * time.Millisecond
	// slowObject is how long an object must take before a catch-up cursor is opened. A faster
	// target works off everything soon.
	slowObject = 50 * time.Microsecond
	// maxWait bounds how long a change that the catch-up cursor handed over waits for its turn. It
	// bounds how many are handed over.
	maxWait = 20 * time.Millisecond
)

// Target describes how fast operations can run.
type Target struct {
	// Workers is the number of operations that run at a time.
	Workers int
	// Least is the shortest time between two objects that the limiters allow; 0 if there is no
	// limit.
	Least time.Duration
}

// lag describes how the main cursor is behind: since when it has not read everything, and how long
// operations took since then. The zero value is a cursor that is not behind.
type lag struct {
	behind bool
	// since is when the cursor fell behind. objects is the number of objects whose operations have
	// run since, took the time of those operations, longest that of the longest one.
	since         time.Duration
	objects       int
	took, longest time.Duration
}

// maxObjects bounds the objects in the mean, so that recent objects count most.
const maxObjects = 1000

// add adds an object whose operation took the given time.
func (g *lag) add(took time.Duration) {
	g.objects++
	g.took += took
	g.longest = max(g.longest, took)
	if g.objects >= maxObjects {
		g.objects, g.took, g.longest = g.objects/2, g.took/2, g.longest/2
	}
}

// mean returns how long an object takes on average with a number of workers. surely is the mean
// without the longest call: one long pause of the machine does not make the target slow.
func (g *lag) mean(workers int) (mean, surely time.Duration) {
	if g.objects == 0 {
		return 0, 0
	}
	n := time.Duration(g.objects * workers)
	return g.took / n, (g.took - g.longest) / n
}

// Behind reports whether the main cursor has not read all changes.
func (o *Observer[Obj]) Behind() bool { return o.lag.behind }

// fallBehind records that the main cursor has not read all changes.
func (o *Observer[Obj]) fallBehind(now time.Duration) {
	if !o.lag.behind {
		o.lag = lag{behind: true, since: now}
	}
}

// NoteTook records how long the operation of an object took; for a batch, the object's share. It
// counts only while the main cursor is behind.
func (o *Observer[Obj]) NoteTook(took time.Duration) {
	if o.lag.behind {
		o.lag.add(took)
	}
}

// UpdateCatchUp opens a catch-up cursor if the main cursor has been behind for behindTime and an
// object takes longer than slowObject. That needs the lock of the table; while another part of the program
// has it, there is no catch-up cursor yet. It returns an error if the table's changes cannot be opened
// a second time. Then it does not try again before behindTime has passed.
func (o *Observer[Obj]) UpdateCatchUp(now time.Duration, target Target) error {
	if !o.lag.behind {
		o.slow = false
		o.forgetOpening()
		return nil
	}
	mean, surely := o.lag.mean(target.Workers)
	o.each = max(mean, target.Least)
	o.slow = o.each > slowObject
	if o.catchUp != nil || max(surely, target.Least) <= slowObject || now-o.lag.since < behindTime {
		return nil
	}
	if o.opening == nil {
		o.opening = make(chan opened[Obj], 1)
		to := o.opening
		briefly(func() { to <- o.open() })
	}
	select {
	case is := <-o.opening:
		o.opening = nil
		switch {
		case is.err != nil:
			o.lag = lag{behind: true, since: now}
			return is.err
		case is.at < o.snapshot:
			// The main cursor may have handed over deletions that this iterator has, too.
			briefly(is.changes.Close)
		default:
			o.catchUp = &catchUp[Obj]{from: o.snapshot, upTo: o.snapshot, deletions: is.changes, deletedAfter: is.at, deletedUpTo: is.at}
		}
	default:
		// Another part of the program has locked the table.
	}
	return nil
}

// lockTime is how long the caller of [briefly] waits.
const lockTime = time.Millisecond

// briefly calls f, which needs the lock of the table, on a goroutine of its own, and waits for its end, but
// no longer than lockTime: another part of the program may keep the table locked for long.
func briefly(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	late := time.NewTimer(lockTime)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// forgetOpening closes an iterator that was opened for a catch-up cursor which is not needed any more.
func (o *Observer[Obj]) forgetOpening() {
	select {
	case is := <-o.opening:
		o.opening = nil
		if is.err == nil {
			briefly(is.changes.Close)
		}
	default:
		// It is not open yet, or there is none.
	}
}

// MaxFresh returns how many changes of the catch-up cursor may wait for their turn; 0 if there is
// no catch-up cursor.
func (o *Observer[Obj]) MaxFresh() int {
	if o.catchUp == nil {
		return 0
	}
	return int(max(1, maxWait/max(1, o.each)))
}

// CatchingUp reports whether there is a catch-up cursor.
func (o *Observer[Obj]) CatchingUp() bool { return o.catchUp != nil }

// CaughtUp returns the range of revisions, above from and up to upTo, in which the catch-up cursor
// has read all objects; zeros if there is no catch-up cursor.
func (o *Observer[Obj]) CaughtUp() (from, upTo statedb.Revision) {
	if o.catchUp == nil {
		return 0, 0
	}
	return o.catchUp.from, o.catchUp.upTo
}

// endCatchUp closes the catch-up cursor, if there is one. It is called when the main cursor has
// read all changes.
func (o *Observer[Obj]) endCatchUp() {
	if o.catchUp != nil {
		briefly(o.catchUp.deletions.Close)
	}
	o.lag, o.catchUp = lag{}, nil
}

// readCatchUp hands over what was written after the main cursor's snapshot.
func (o *Observer[Obj]) readCatchUp(txn statedb.ReadTxn, now time.Duration) {
	c := o.catchUp
	if c.upTo < o.snapshot {
		c.from, c.upTo = o.snapshot, o.snapshot
	}
	o.readDeletions(txn)
	switch {
	case o.readObjects(txn):
		c.lagging = false
	case !c.lagging:
		c.lagging, c.laggingSince = true, now
	case now-c.laggingSince >= o.beforeJump():
		c.lagging, c.upTo = false, o.rows.Table.Revision(txn)
		c.from = c.upTo
	}
}

// beforeJump returns how long the catch-up cursor must be behind before it leaves out what it has not read.
// Where the rows carry no status, each jump begins another range, of which only so many are remembered. So
// the time grows with their number: they are enough for a burst that lasts half a minute. After the last one
// the cursor leaves nothing out.
func (o *Observer[Obj]) beforeJump() time.Duration {
	if o.before == nil {
		return behindTime
	}
	n := len(o.before.ranges)
	if n >= maxRanges {
		return math.MaxInt64
	}
	return time.Duration(float64(behindTime) * math.Pow(1.1, float64(n)))
}

// readObjects hands over the objects that were written since the last call. It returns false if
// there was no room for all of them.
func (o *Observer[Obj]) readObjects(txn statedb.ReadTxn) bool {
	c := o.catchUp
	read, taken := 0, 0
	defer func() {
		o.skippable.add(o.revision, c.upTo, taken)
		if o.before != nil {
			o.before.extend(Range{c.from, c.upTo})
		}
	}()
	for object, revision := range o.rows.Table.LowerBound(txn, statedb.ByRevision[Obj](c.upTo+1)) {
		change, wanted := o.read(statedb.Change[Obj]{Object: object, Revision: revision}, true)
		if wanted {
			if change.lane == core.Backlog {
				change.lane = core.Fresh
			}
			if o.core.Full(change.lane) {
				return false
			}
			o.core.Observe(object, revision, change.since, false, change.lane)
			taken++
		}
		c.upTo = revision
		if read++; read == stride {
			return true
		}
	}
	c.upTo = max(c.upTo, o.rows.Table.Revision(txn))
	return true
}

// readDeletions hands over the deletions that the main cursor has not reached.
func (o *Observer[Obj]) readDeletions(txn statedb.ReadTxn) {
	c := o.catchUp
	if c.holding && !o.handOverDeletion(c.held, txn) {
		return
	}
	c.held, c.holding = change[Obj]{}, false
	changes, more := c.deletions.Next(txn)
	select {
	case <-more:
	default:
		return
	}
	read := 0
	for of, revision := range changes {
		deletion := change[Obj]{object: of.Object, revision: revision, deleted: true, lane: core.Deletion}
		if of.Deleted && !o.handOverDeletion(deletion, txn) {
			c.held, c.holding = deletion, true
			return
		}
		if read++; read == stride {
			return
		}
	}
}

// handOverDeletion hands over a deletion that the catch-up cursor has read. It returns false if
// there was no room.
func (o *Observer[Obj]) handOverDeletion(c change[Obj], txn statedb.ReadTxn) bool {
	switch {
	case c.revision <= o.revision:
	case o.core.Full(c.lane):
		return false
	case o.overtaken(c, txn):
		o.core.ObserveSeenDeletion(c.object, c.revision)
	default:
		o.hooks.EarlyDeletion(c.object)
		o.core.Observe(c.object, c.revision, c.revision, true, c.lane)
	}
	o.catchUp.deletedUpTo = c.revision
	return true
}

// sawDeletion reports whether the cursor has read a deletion.
func (c *catchUp[Obj]) sawDeletion(revision statedb.Revision) bool {
	return revision > c.deletedAfter && revision <= c.deletedUpTo
}
