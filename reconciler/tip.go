// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
)

// tip is a second cursor, for what is newer than main's snapshot. When the target is slow
// and changes pile up, what is written now would have to wait until everything before it has
// been applied. Main then goes on with its snapshot while the tip reads on from there.
// Nothing is copied, and no account is kept of what the tip has read: what it handed over
// is known to the core, or is reconciled when main comes to it, which a look at the row
// tells. So the tip may pass over what it has no room for, which is part of main's next
// snapshot.
//
// Objects are read by revision. Deletions are not in that index: they are read from a
// change iterator of their own, which knows of none before it was opened, and has to go past
// every object of the table once. That is a tenth of a microsecond each, in small steps. Of
// these the account is kept, since no row tells that a deletion was carried out.
type tip[Obj comparable] struct {
	// upTo is the revision up to which objects were read, or passed over; after from none
	// was passed over.
	from, upTo statedb.Revision
	// lagging: since laggingSince the tip has not read all that there was.
	lagging      bool
	laggingSince time.Duration

	deletions statedb.ChangeIterator[Obj]
	// The deletions after one revision and up to another were read.
	deletedAfter, deletedUpTo statedb.Revision
	// held is a deletion that was read, and for which there was no room.
	held    change[Obj]
	holding bool
}

const (
	// behindTime is how long main has to be behind for there to be a tip, and the tip
	// itself for passing over what it has not read.
	behindTime = 10 * time.Millisecond
	// slowObject is how long an object has to take. A quicker target is soon done with what
	// there is, and has no use for a second cursor.
	slowObject = 50 * time.Microsecond
	// youth is for how long a change that the tip has handed over may wait for its turn:
	// no more are taken in.
	youth = 20 * time.Millisecond
)

// behind is what is known of main while it does not see all there is. The zero value: it
// does.
type behind struct {
	is bool
	// since is when that began. The operations of so many objects took so long since
	// then; longest is the longest call.
	since         time.Duration
	objects       int
	took, longest time.Duration
}

// ran notes that a call for some objects took so long, or, if that is zero, that those were
// part of one.
func (b *behind) ran(objects int, took time.Duration) {
	b.objects += objects
	b.took += took
	b.longest = max(b.longest, took)
	if b.objects >= remembered {
		// What was long ago says little.
		b.objects, b.took, b.longest = b.objects/2, b.took/2, b.longest/2
	}
}

// remembered is how many objects make for the mean.
const remembered = 1000

// each returns how long an object takes with so many workers; surely: without the longest
// call, as one long pause of the machine makes no slow target.
func (b *behind) each(workers int) (mean, surely time.Duration) {
	if b.objects == 0 {
		return 0, 0
	}
	n := time.Duration(b.objects * workers)
	return b.took / n, (b.took - b.longest) / n
}

// fallBehind notes that main has not seen all there is.
func (o *observer[Obj]) fallBehind(now time.Duration) {
	if !o.behind.is {
		o.behind = behind{is: true, since: now}
	}
}

// followUp begins a tip when main has been behind for long and an object takes long: its
// operation, or until the limiters let it. It returns how many changes the tip may have
// waiting for their turn; 0 if there is no tip.
func (l *Loop[Obj]) followUp(now time.Duration) int {
	o := &l.observer
	if !o.behind.is {
		o.slow = false
		return 0
	}
	workers := 1
	if l.pooled {
		workers = l.set.Concurrency
	}
	mean, surely := o.behind.each(workers)
	least := l.set.leastTime()
	mean, surely = max(mean, least), max(surely, least)
	o.slow = mean > slowObject
	if o.tip == nil && (surely <= slowObject || now-o.behind.since < behindTime || !l.openTip(now)) {
		return 0
	}
	return int(max(1, youth/max(1, mean)))
}

// leastTime returns the time that the limiters leave for an object, zero if they do not limit.
func (s *Settings) leastTime() (least time.Duration) {
	if l := s.OperationLimiter; l != nil && l.Limit() > 0 {
		least = inSeconds(1 / float64(l.Limit()))
	}
	if l := s.RoundLimiter; l != nil && l.Limit() > 0 {
		least = max(least, inSeconds(1/float64(l.Limit())/float64(s.RoundSize)))
	}
	return least
}

// openTip begins a tip, and reports whether it could.
func (l *Loop[Obj]) openTip(now time.Duration) bool {
	o := &l.observer
	deletions, at, err := o.open()
	if err != nil {
		l.log.Error("cannot observe the table a second time; what is new waits for what is old", "error", err)
		// Not at every look.
		o.behind = behind{is: true, since: now}
		return false
	}
	o.tip = &tip[Obj]{from: o.snapshot, upTo: o.snapshot, deletions: deletions, deletedAfter: at, deletedUpTo: at}
	return true
}

// catchUp ends the tip: main sees all there is.
func (o *observer[Obj]) catchUp() {
	if o.tip != nil {
		o.tip.deletions.Close()
	}
	o.behind, o.tip = behind{}, nil
}

// observeTip hands the core what came after main's snapshot.
func (l *Loop[Obj]) observeTip(txn statedb.ReadTxn, now time.Duration) {
	t := l.observer.tip
	if t.upTo < l.observer.snapshot {
		t.from, t.upTo = l.observer.snapshot, l.observer.snapshot
	}
	l.observeDeletions(txn)
	switch {
	case l.readTip(txn):
		t.lagging = false
	case !t.lagging:
		t.lagging, t.laggingSince = true, now
	case now-t.laggingSince >= behindTime:
		t.lagging, t.upTo = false, l.rows.Table.Revision(txn)
		t.from = t.upTo
	}
}

// readTip hands the core the objects that were written since the last look. It returns
// false if there was no room for all.
func (l *Loop[Obj]) readTip(txn statedb.ReadTxn) bool {
	t := l.observer.tip
	read, taken := 0, 0
	defer func() { l.observer.passed.add(t.upTo, taken) }()
	for object, revision := range l.rows.Table.LowerBound(txn, statedb.ByRevision[Obj](t.upTo+1)) {
		c, wanted := l.wanted(statedb.Change[Obj]{Object: object, Revision: revision}, true)
		if wanted {
			if c.lane == core.Backlog {
				c.lane = core.Fresh
			}
			if l.core.Full(c.lane) {
				return false
			}
			l.core.Observe(object, revision, c.since, false, c.lane)
			taken++
		}
		t.upTo = revision
		if read++; read == stride {
			return true
		}
	}
	t.upTo = max(t.upTo, l.rows.Table.Revision(txn))
	return true
}

// observeDeletions hands the core the latest deletions, of those that main has not
// passed.
func (l *Loop[Obj]) observeDeletions(txn statedb.ReadTxn) {
	t := l.observer.tip
	if t.holding && !l.observeDeletion(t.held) {
		return
	}
	t.held, t.holding = change[Obj]{}, false
	changes, watch := t.deletions.Next(txn)
	select {
	case <-watch:
	default:
		return
	}
	read := 0
	for of, revision := range changes {
		c := change[Obj]{object: of.Object, revision: revision, deleted: true, lane: core.Deletion}
		if of.Deleted && !l.observeDeletion(c) {
			t.held, t.holding = c, true
			return
		}
		if read++; read == stride {
			return
		}
	}
}

// observeDeletion hands the core a deletion, and reports whether there was room.
func (l *Loop[Obj]) observeDeletion(c change[Obj]) bool {
	o := &l.observer
	if c.revision > o.revision {
		if l.core.Full(c.lane) {
			return false
		}
		l.core.Observe(c.object, c.revision, c.revision, true, c.lane)
	}
	o.tip.deletedUpTo = c.revision
	return true
}

// saw reports whether the tip has read a deletion.
func (t *tip[Obj]) saw(revision statedb.Revision) bool {
	return revision > t.deletedAfter && revision <= t.deletedUpTo
}
