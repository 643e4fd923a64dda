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
// 0.1 microseconds a row, and is done in small steps. It reads those of one state of the table to the end before
// it takes the next state: a key that is inserted again loses its deletion in the next, even if it is deleted
// again before its row is read.
type catchUp[Obj any] struct {
	// unread are the ranges whose rows were not read, in rising order. The last one has no end. fresh has what
	// was read of that in this pass, handed counts the rows of it that were handed over.
	unread []Range
	fresh  queue[Obj]
	handed int
	// freshLeft and keysLeft are how many rows of the newest range and of the snapshot may still be read in
	// this pass.
	freshLeft, keysLeft int
	// next returns the rows of the main cursor's snapshot, and stop ends that; nil if the main cursor has
	// read its snapshot. The snapshot is read up to the revision end. row is the one that next has
	// returned last, which was not handed over; valid if its revision is not 0.
	next        func() (Obj, statedb.Revision, bool)
	stop        func()
	end         statedb.Revision
	row         Obj
	rowRevision statedb.Revision
	// goal is the revision that the table had at goalSince, and that the cursor is to reach next.
	goal      statedb.Revision
	goalSince time.Duration
}

const (
	// behindTime is how long the main cursor must be behind before there is a catch-up cursor, and how long
	// main waits for the catch-up cursor before it takes its next snapshot.
	behindTime = 10 * time.Millisecond
	// maxLag is how far the catch-up cursor may be behind before it leaves out what it has not read.
	maxLag = 20 * time.Millisecond
	// slowObject is how long an object must take before there is a catch-up cursor. A faster
	// target works off everything soon.
	slowObject = 50 * time.Microsecond
	// maxRefreshes bounds the rows that a program wrote as Refreshing and that wait for their places, so that those behind
	// them are read.
	maxRefreshes = 512
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

// fallBehind records that the main cursor has not read all changes.
func (g *lag) fallBehind(now time.Duration) {
	if !g.behind {
		g.behind, g.since = true, now
	}
}

// speed describes how fast the target is, while the main cursor is behind.
type speed struct {
	lag lag
	// each is how long an object takes. slow: that is long.
	each time.Duration
	slow bool
}

// Behind reports whether the main cursor has not read all changes.
func (o *Observer[Obj]) Behind() bool { return o.speed.lag.behind }

// NoteTook records how long the operation of an object took; for a batch, the object's share. It counts while the
// main cursor is behind, and for the pass in which it falls behind.
func (o *Observer[Obj]) NoteTook(took time.Duration) { o.speed.lag.add(took) }

// UpdateCatchUp begins a catch-up cursor if the main cursor has been behind for behindTime and an object takes
// longer than slowObject.
func (o *Observer[Obj]) UpdateCatchUp(now time.Duration, target Target) {
	s := &o.speed
	if !s.lag.behind {
		*s = speed{}
		return
	}
	mean, surely := s.lag.mean(target.Workers)
	s.each = max(mean, target.Least)
	s.slow = s.each > slowObject
	if o.catchUp == nil && max(surely, target.Least) > slowObject && now-s.lag.since >= behindTime {
		o.beginCatchUp(now)
	}
}

// beginCatchUp begins a catch-up cursor at the end of the main cursor's snapshot. The main cursor goes on with
// the rows of its snapshot.
func (o *Observer[Obj]) beginCatchUp(now time.Duration) {
	c := &catchUp[Obj]{unread: []Range{{o.main.snapshot, math.MaxUint64}}, goal: o.rows.Revision(), goalSince: now}
	if o.main.reads() {
		c.unread = slices.Insert(c.unread, 0, Range{o.revision, o.main.snapshot})
		c.beginSnapshot(o.rows.Table, o.main.from)
	}
	// The rows are in an unread range.
	deletions := slices.DeleteFunc(slices.Clone(o.main.read.changes[o.main.read.taken:]), func(c core.Change[Obj]) bool { return !c.Deleted })
	o.main.read.empty()
	o.main.read.changes = append(o.main.read.changes, deletions...)
	o.catchUp, o.main.rest, o.deletions, o.main.from, o.main.whole = c, nil, o.main.from, nil, false
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

// wasRead reports whether there is a catch-up cursor, and it has read the rows of a revision above
// [Observer.Revision].
func (c *catchUp[Obj]) wasRead(revision statedb.Revision) bool {
	return c != nil && !c.isUnread(revision)
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

// begin begins a pass.
func (c *catchUp[Obj]) begin() {
	c.freshLeft, c.keysLeft, c.handed = stride, stride, 0
	c.fresh.empty()
	c.fresh.upTo = c.newest().After
}

// nextWhileCatchingUp is [Observer.Next] while there is a catch-up cursor.
func (o *Observer[Obj]) nextWhileCatchingUp(lane core.Lane) (change core.Change[Obj], ok bool) {
	switch lane {
	case core.Fresh:
		return o.nextOfNewest()
	case core.Deletion:
		for o.readDeletions() {
			if change = o.main.read.take(); o.handOver(&change) {
				return change, true
			}
		}
	case core.Backlog:
		return o.nextOfSnapshot()
	}
	return core.Change[Obj]{}, false
}

// endWhileCatchingUp is [Observer.End] while there is a catch-up cursor. It reports whether everything was read.
func (o *Observer[Obj]) endWhileCatchingUp(now time.Duration) (done bool) {
	c, table := o.catchUp, o.rows.Table.Revision(o.pass.txn)
	o.readDeletions()
	c.newest().After = max(c.newest().After, c.fresh.handedOver())
	o.skippable.add(o.revision, c.newest().After, c.handed)
	o.leaveOut(table, now)
	if c.next == nil && c.newest().After == table && len(c.unread) > 1 {
		// All rows that this transaction has are read, or in the ranges.
		o.takeSnapshot()
		c.beginSnapshot(o.rows.Table, o.pass.txn)
	}
	read := c.unread[0].After
	if read < table {
		// A row that is in what is left of the newest range may have been in the part that was read, until
		// another reconciler wrote it. Waits for it go by main's snapshots.
		read = min(read, o.main.snapshot)
	}
	o.revision = max(o.revision, min(read, o.main.read.handedOver()))
	switch {
	case o.revision < table:
		o.pass.more = watch.Closed
		return false
	case o.core.Index.LaneSize(core.Backlog) == 0:
		// The snapshot may have rows left, all of which were read.
		c.endSnapshot()
		o.catchUp, o.deletions, o.main.snapshot, o.main.whole = nil, nil, table, true
	}
	return true
}

// leaveOut leaves what the catch-up cursor has not read to the main cursor, if the catch-up cursor is too far
// behind. The main cursor takes its next snapshot when the catch-up cursor has read everything, and waits no
// longer for that than behindTime.
func (o *Observer[Obj]) leaveOut(table statedb.Revision, now time.Duration) {
	c := o.catchUp
	newest := c.newest()
	patience, reached := behindTime, newest.After == table
	if c.next != nil {
		patience, reached = c.patience(o.early.shown), newest.After >= c.goal || c.freshLeft == 0
	}
	if reached {
		c.goal, c.goalSince = table, now
		return
	}
	if now-c.goalSince < patience {
		return
	}
	c.goal, c.goalSince = table, now
	left := Range{newest.After, table}
	newest.After = table
	if last := len(c.unread) - 2; o.early.shown && last >= 0 {
		c.unread[last].UpTo = table
	} else {
		c.unread = slices.Insert(c.unread, len(c.unread)-1, left)
	}
}

// patience returns how far the catch-up cursor may be behind before it leaves out what it has not read, while the
// main cursor reads a snapshot. Where the rows carry no status, each time it does begins another range, of which
// there may be only so many. So the time grows with their number: they are enough for a burst that lasts half a
// minute. After the last one the cursor leaves nothing out. shown: the rows carry a status.
func (c *catchUp[Obj]) patience(shown bool) time.Duration {
	n := len(c.unread) - 1
	switch {
	case shown:
		return maxLag
	case n >= maxRanges:
		return math.MaxInt64
	}
	return max(maxLag, time.Duration(float64(behindTime)*math.Pow(1.1, float64(n))))
}

// readDeletions reads some deletions, and reports whether there are any.
func (o *Observer[Obj]) readDeletions() bool {
	for latest := false; o.main.read.isEmpty() && o.pass.left > 0 && !latest; {
		if o.deletions == nil {
			o.deletions = o.pass.txn
		}
		latest = o.deletions == o.pass.txn
		changes, more := o.changes.Next(o.deletions)
		select {
		case <-more:
			if !o.readDeletionsOf(changes) {
				return !o.main.read.isEmpty()
			}
			o.main.read.upTo = o.rows.Table.Revision(o.deletions)
		default:
			// Nothing changed since the state that was read last. This one may be a newer state: a commit shows in
			// it before it closes the channel.
			o.pass.more = more
		}
		if o.main.read.isEmpty() {
			if o.main.read.upTo >= o.rows.Table.Revision(o.deletions) {
				o.handed = handed{o.deletions, o.rows.Table.Revision(o.deletions)}
			}
			o.deletions = nil
		}
	}
	return !o.main.read.isEmpty()
}

// readDeletionsOf reads some of the changes of a state, and reports whether it has come to their end.
func (o *Observer[Obj]) readDeletionsOf(changes iter.Seq2[statedb.Change[Obj], statedb.Revision]) (ended bool) {
	o.main.read.empty()
	o.pass.reads++
	for change, revision := range changes {
		if change.Deleted {
			o.reader.readChange(&o.main.read, change)
		}
		o.main.read.upTo = revision
		if o.pass.left--; o.pass.left == 0 || len(o.main.read.changes) == chunk {
			return false
		}
	}
	return true
}

// nextOfNewest returns the next change of the newest range. Rows that are Refreshing go to their lane.
func (o *Observer[Obj]) nextOfNewest() (change core.Change[Obj], ok bool) {
	c := o.catchUp
	for !c.fresh.isEmpty() || o.readNewest() {
		refreshes := c.fresh.first().Lane == core.Refresh
		if refreshes && o.core.Index.LaneSize(core.Refresh) >= maxRefreshes {
			break
		}
		change = c.fresh.take()
		c.newest().After = c.fresh.handedOver()
		if !o.handOver(&change) {
			continue
		}
		c.handed++
		if !refreshes {
			change.Lane = core.Fresh
			return change, true
		}
		o.core.Observe(change)
	}
	return core.Change[Obj]{}, false
}

// readNewest reads some rows of the newest range, and reports whether any asks for an operation.
func (o *Observer[Obj]) readNewest() bool {
	c := o.catchUp
	c.fresh.empty()
	o.pass.reads++
	for row, revision := range o.rows.Table.LowerBound(o.pass.txn, statedb.ByRevision[Obj](c.fresh.upTo+1)) {
		if c.freshLeft == 0 || len(c.fresh.changes) == chunk {
			return !c.fresh.isEmpty()
		}
		c.freshLeft--
		o.reader.readChange(&c.fresh, statedb.Change[Obj]{Object: row, Revision: revision})
		c.fresh.upTo = revision
	}
	c.fresh.upTo = max(c.fresh.upTo, o.rows.Table.Revision(o.pass.txn))
	c.newest().After = c.fresh.handedOver()
	return !c.fresh.isEmpty()
}

// nextOfSnapshot returns the change of the next key of the main cursor's snapshot, in the version that the table
// has.
func (o *Observer[Obj]) nextOfSnapshot() (change core.Change[Obj], ok bool) {
	c := o.catchUp
	for ; c.next != nil && c.keysLeft > 0; c.keysLeft-- {
		o.pass.reads++
		row, revision, found := c.peek()
		if !found {
			c.endSnapshot()
			c.passed(c.end)
			break
		}
		if c.isUnread(revision) {
			change, ok = o.changeOfKey(row, revision)
		}
		c.drop()
		c.passed(revision)
		if ok {
			return change, true
		}
	}
	return core.Change[Obj]{}, false
}

// changeOfKey returns the change of the key of a row of the main cursor's snapshot, in the version that the table
// has, unless that asks for nothing.
func (o *Observer[Obj]) changeOfKey(row Obj, revision statedb.Revision) (change core.Change[Obj], ok bool) {
	change, wanted := o.reader.rowChange(row, revision)
	if !wanted {
		return change, false
	}
	change.Lane = core.Backlog
	current, at, found := o.rows.Get(o.pass.txn, row)
	switch {
	case found && at != revision:
		change.Obj, change.Revision = current, at
		if !o.rows.Asked(current).IsPendingOrRefreshing() || o.Applied(current, at) {
			return change, false
		}
	case !found:
		if _, err := o.rows.KeyOf(row); err == nil {
			// Its deletion is read from the iterator of the changes. A key that is too long is never found.
			return change, false
		}
	}
	return change, o.handOver(&change)
}

// CatchingUp reports whether there is a catch-up cursor.
func (o *Observer[Obj]) CatchingUp() bool { return o.catchUp != nil }
