// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/watch"
)

// Range is a range of revisions: those above After and up to UpTo.
type Range struct{ After, UpTo statedb.Revision }

// Contains reports whether a revision is in the range.
func (r Range) Contains(revision statedb.Revision) bool {
	return revision > r.After && revision <= r.UpTo
}

// catchUp is the catch-up cursor, which reads what is newer than the main cursor's snapshot. When the target
// is slow and changes pile up, a new change would otherwise wait until everything before it has been applied.
//
// A key has one revision. So what was not read is a set of ranges of revisions of the table as it is, and a
// row that is written again moves to the newest range by itself. The catch-up cursor reads the newest range,
// and the main cursor the others, oldest first. Where the catch-up cursor has no room for all, it leaves what it
// has not read to the main cursor, as one more range.
//
// A row that is written faster than the ranges are read would always be in one that is not read. So the main
// cursor takes its keys from a snapshot: it reads all that the snapshot has in the ranges before it takes the
// next, and looks each key up in the table. What was left out meanwhile is for the next snapshot.
//
// Deletions are in none of the ranges. The iterator of the changes has them, and goes past the rows: that takes
// 0.1 microseconds a row, and is done in small steps.
type catchUp[Obj comparable] struct {
	// unread are the ranges whose rows were not read, in rising order. The last one has no end. deleted is
	// the revision up to which deletions were handed over.
	unread  []Range
	deleted statedb.Revision
	// next returns the rows of the main cursor's snapshot, and stop ends that; nil if the main cursor has
	// read its snapshot. The snapshot is read up to the revision end. row is the one that next has
	// returned last, which was not handed over; valid if its revision is not 0.
	next        func() (Obj, statedb.Revision, bool)
	stop        func()
	end         statedb.Revision
	row         Obj
	rowRevision statedb.Revision
	// lagging: the cursor has not been able to hand over all rows since laggingSince.
	lagging      bool
	laggingSince time.Duration
}

const (
	// behindTime is how long the main cursor must be behind before there is a catch-up cursor, and
	// how long the catch-up cursor must be behind before it leaves out what it has not read.
	behindTime = 10 * time.Millisecond
	// slowObject is how long an object must take before there is a catch-up cursor. A faster
	// target works off everything soon.
	slowObject = 50 * time.Microsecond
	// maxWait bounds how long a change that the catch-up cursor handed over waits for its turn. It
	// bounds how many are handed over.
	maxWait = 20 * time.Millisecond
	// maxRanges bounds the unread ranges where the rows carry no status. Where they do, two are enough:
	// what is read twice shows what is done.
	maxRanges = 64
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

// UpdateCatchUp begins a catch-up cursor if the main cursor has been behind for behindTime and an object takes
// longer than slowObject.
func (o *Observer[Obj]) UpdateCatchUp(now time.Duration, target Target) {
	if !o.lag.behind {
		o.slow = false
		return
	}
	mean, surely := o.lag.mean(target.Workers)
	o.each = max(mean, target.Least)
	o.slow = o.each > slowObject
	if o.catchUp == nil && max(surely, target.Least) > slowObject && now-o.lag.since >= behindTime {
		o.beginCatchUp()
	}
}

// beginCatchUp begins a catch-up cursor at the end of the main cursor's snapshot. The main cursor goes on with
// the rows of its snapshot.
func (o *Observer[Obj]) beginCatchUp() {
	c := &catchUp[Obj]{unread: []Range{{o.snapshot, math.MaxUint64}}, deleted: o.revision}
	if o.rest != nil {
		c.unread = slices.Insert(c.unread, 0, Range{o.revision, o.snapshot})
		c.beginSnapshot(o.rows.Table, o.from)
	}
	if o.holding && !o.held.deleted {
		// It is in an unread range.
		o.held, o.holding = change[Obj]{}, false
	}
	o.catchUp, o.rest, o.from, o.whole = c, nil, nil, false
}

// beginSnapshot begins to read the rows that a snapshot has in the ranges, without the last one.
func (c *catchUp[Obj]) beginSnapshot(table statedb.Table[Obj], txn statedb.ReadTxn) {
	c.next, c.stop = iter.Pull2(table.LowerBound(txn, statedb.ByRevision[Obj](c.unread[0].After+1)))
	c.end = c.unread[len(c.unread)-2].UpTo
}

// endSnapshot ends the reading of a snapshot.
func (c *catchUp[Obj]) endSnapshot() {
	if c.stop != nil {
		c.stop()
	}
	c.next, c.stop = nil, nil
	c.drop()
}

// peek returns the next row of the main cursor's snapshot; false at its end.
func (c *catchUp[Obj]) peek() (Obj, statedb.Revision, bool) {
	if c.rowRevision == 0 {
		var ok bool
		if c.row, c.rowRevision, ok = c.next(); !ok || c.rowRevision > c.end {
			c.drop()
			return c.row, 0, false
		}
	}
	return c.row, c.rowRevision, true
}

// drop forgets the row that peek has returned.
func (c *catchUp[Obj]) drop() { c.row, c.rowRevision = *new(Obj), 0 }

// isUnread reports whether the rows of a revision were not read.
func (c *catchUp[Obj]) isUnread(revision statedb.Revision) bool {
	return slices.ContainsFunc(c.unread, func(r Range) bool { return r.Contains(revision) })
}

// passed records that the main cursor has read all rows up to a revision.
func (c *catchUp[Obj]) passed(revision statedb.Revision) {
	for len(c.unread) > 1 && c.unread[0].UpTo <= revision {
		c.unread = c.unread[1:]
	}
	c.unread[0].After = max(c.unread[0].After, revision)
}

// newest returns the range that the catch-up cursor reads.
func (c *catchUp[Obj]) newest() *Range { return &c.unread[len(c.unread)-1] }

// catchUpWith is [Observer.Observe] while there is a catch-up cursor. done reports that everything was read.
func (o *Observer[Obj]) catchUpWith(txn statedb.ReadTxn, now time.Duration) (more <-chan struct{}, done bool) {
	c, table := o.catchUp, o.rows.Table.Revision(txn)
	more = o.readDeletions(txn)
	lags := o.readNewest(txn)
	if c.next != nil {
		o.readSnapshot(txn)
	}
	o.leaveOut(table, lags, now)
	if c.next == nil && c.newest().After == table && len(c.unread) > 1 {
		// All rows that this transaction has are read, or in the ranges.
		o.takeSnapshot(txn)
		c.beginSnapshot(o.rows.Table, txn)
	}
	read := c.unread[0].After
	if len(c.unread) == 1 && read < table {
		// A row that is in what is left of the newest range may have been in the part that was read, until
		// another reconciler wrote it.
		read = o.snapshot
	}
	o.revision = max(o.revision, min(read, c.deleted))
	switch {
	case o.revision < table:
		return watch.Closed, false
	case o.core.LaneSize(core.Backlog) == 0:
		// The snapshot may have rows left, all of which were read.
		c.endSnapshot()
		o.catchUp, o.snapshot, o.whole = nil, table, true
	}
	return more, true
}

// leaveOut leaves what the catch-up cursor has not read to the main cursor, if the catch-up cursor has lagged
// for too long. The main cursor takes its next snapshot when the catch-up cursor has read everything, and waits
// no longer for that than behindTime.
func (o *Observer[Obj]) leaveOut(table statedb.Revision, lags bool, now time.Duration) {
	c := o.catchUp
	newest := c.newest()
	if !lags && (c.next != nil || newest.After == table) {
		c.lagging = false
		return
	}
	if !c.lagging {
		c.lagging, c.laggingSince = true, now
	}
	patience := behindTime
	if c.next != nil {
		patience = o.beforeJump()
	}
	if now-c.laggingSince < patience {
		return
	}
	c.lagging = false
	left := Range{newest.After, table}
	newest.After = table
	if last := len(c.unread) - 2; o.early == nil && last >= 0 {
		c.unread[last].UpTo = table
	} else {
		c.unread = slices.Insert(c.unread, len(c.unread)-1, left)
	}
}

// beforeJump returns how long the catch-up cursor must be behind before it leaves out what it has not read,
// while the main cursor reads a snapshot. Where the rows carry no status, each time it does begins another
// range, of which there may be only so many. So the time grows with their number: they are enough for a burst
// that lasts half a minute. After the last one the cursor leaves nothing out.
func (o *Observer[Obj]) beforeJump() time.Duration {
	if o.early == nil {
		return behindTime
	}
	n := len(o.catchUp.unread) - 1
	if n >= maxRanges {
		return math.MaxInt64
	}
	return time.Duration(float64(behindTime) * math.Pow(1.1, float64(n)))
}

// readDeletions hands over deletions, also those that the main cursor's snapshot does not have.
func (o *Observer[Obj]) readDeletions(txn statedb.ReadTxn) <-chan struct{} {
	c := o.catchUp
	if !o.handOverHeld(txn) {
		return watch.Closed
	}
	changes, more := o.changes.Next(txn)
	select {
	case <-more:
	default:
		return more
	}
	read := 0
	for of, revision := range changes {
		if of.Deleted {
			if d, _ := o.read(of, true); !o.handOver(d, txn) {
				o.held, o.holding = d, true
				return watch.Closed
			}
		}
		c.deleted = revision
		if read++; read == stride {
			return watch.Closed
		}
	}
	c.deleted = o.rows.Table.Revision(txn)
	return watch.Closed
}

// readNewest hands over the rows of the newest range. lags reports that there was no room for all of them.
func (o *Observer[Obj]) readNewest(txn statedb.ReadTxn) (lags bool) {
	newest := o.catchUp.newest()
	read, taken := 0, 0
	defer func() { o.skippable.add(o.revision, newest.After, taken) }()
	for object, revision := range o.rows.Table.LowerBound(txn, statedb.ByRevision[Obj](newest.After+1)) {
		change, wanted := o.read(statedb.Change[Obj]{Object: object, Revision: revision}, true)
		if wanted {
			if change.lane == core.Backlog {
				change.lane = core.Fresh
			}
			if !o.handOver(change, txn) {
				return true
			}
			taken++
		}
		newest.After = revision
		if read++; read == stride {
			return false
		}
	}
	newest.After = max(newest.After, o.rows.Table.Revision(txn))
	return false
}

// readSnapshot hands over the keys of the main cursor's snapshot, in the version that the table has.
func (o *Observer[Obj]) readSnapshot(txn statedb.ReadTxn) {
	c := o.catchUp
	if c.rowRevision > 0 && !o.hasRoom(core.Backlog) {
		return
	}
	for range stride {
		object, revision, ok := c.peek()
		if !ok {
			c.endSnapshot()
			c.passed(c.end)
			return
		}
		if c.isUnread(revision) && !o.handOverKey(txn, object, revision) {
			return
		}
		c.drop()
		c.passed(revision)
	}
}

// handOverKey hands over the key of a row of the main cursor's snapshot, in the version that the table has,
// unless that asks for nothing. It returns false if there is no room.
func (o *Observer[Obj]) handOverKey(txn statedb.ReadTxn, object Obj, revision statedb.Revision) bool {
	change, wanted := o.read(statedb.Change[Obj]{Object: object, Revision: revision}, false)
	if !wanted {
		return true
	}
	c := o.catchUp
	change.lane = core.Backlog
	current, at, found := o.rows.Get(txn, object)
	switch {
	case found && at != revision:
		change.object, change.revision = current, at
		if !o.rows.Asked(current).IsPendingOrRefreshing() || o.Applied(current, at) {
			return true
		}
	case !found && !o.rows.Has(txn, revision):
		// Its deletion is read from the iterator of the changes.
		if at = o.rows.Table.Revision(txn); c.deleted < at {
			o.hooks.Unread(object, at)
		}
		return true
	}
	return o.handOver(change, txn)
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
	if n := len(o.catchUp.unread); n > 1 {
		from = o.catchUp.unread[n-2].UpTo
	}
	return from, o.catchUp.newest().After
}
