// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"sort"
	"time"

	"github.com/cilium/statedb"
)

// tip is a second look at a table, for what is new. When the target is slow and changes
// pile up, what is written now would have to wait until everything before it has been
// applied. The main cursor then goes on with this backlog while the tip reads from where
// the table is now, and main passes over what the tip has seen. Nothing of the backlog
// is copied: it stays in the table, which can be read by revision from anywhere.
//
// Objects are read by revision. Deletions are not in that index: they are read from a
// change iterator of their own, which has to go past every object of the table once. That
// is a tenth of a microsecond each, in small steps, and only while main is behind.
type tip[Obj comparable] struct {
	// seen are the revisions of which the objects were read, a range for each time
	// that the tip was set; the last one grows.
	seen []revisions
	// mark is the table's revision when the tip was last read.
	mark statedb.Revision
	// lagging: since laggingSince the tip has not read all that there was.
	lagging      bool
	laggingSince time.Duration

	deletions statedb.ChangeIterator[Obj]
	// The deletions after start and up to deleted were read.
	start, deleted statedb.Revision
}

// revisions are those after one and up to another.
type revisions struct{ after, upTo statedb.Revision }

const (
	// behindTime is how long main has to be behind for there to be a tip, and the tip
	// itself for being set anew to what is newest.
	behindTime = 10 * time.Millisecond
	// quick is how many changes in a millisecond are so many that the backlog is soon
	// gone; only if main has been behind for behindMost is there a tip all the same.
	quick      = 50
	behindMost = 5 * time.Second
	// stride is how many objects the iterator of deletions goes past in a round.
	stride = 20_000
)

// fallBehind notes that main has not seen all there is, and begins a tip if that is so for
// long and the target is slow. The tip then reads what came since main fell behind: the
// iterator of deletions, which knows of none before it was opened, is opened at once,
// unless the target was quick the last time: opening it costs two transactions.
func (l *Loop[Obj]) fallBehind(txn statedb.ReadTxn, now time.Duration) {
	o := &l.observer
	if o.behind == nil {
		from := l.cfg.Table.Revision(txn)
		o.behind = &behind[Obj]{since: now, tip: tip[Obj]{mark: from, seen: []revisions{{from, from}}}}
	}
	b := o.behind
	since := now - b.since
	if b.tip.deletions == nil {
		if o.quick && since < behindTime/2 {
			return
		}
		deletions, start, err := o.open()
		if err != nil {
			l.log.Error("cannot observe the table a second time; what is new waits for what is old", "error", err)
			return
		}
		b.tip.deletions, b.tip.start, b.tip.deleted = deletions, start, start
	}
	slow := int64(b.taken-l.set.RoundSize) < quick*since.Milliseconds()
	// One long pause of the machine, or of whoever writes the table, does not make a target
	// slow: its operations have to be, too.
	switch {
	case l.pooled:
	case l.batches():
		slow = slow && l.pace.each >= time.Millisecond/quick
	default:
		slow = slow && l.pace.most > 0 && l.pace.most < l.set.RoundSize/2
	}
	if o.tip == nil && (since >= behindTime && slow || since >= behindMost) {
		o.tip = &b.tip
	}
}

// behind is what is known of main while it does not see all there is.
type behind[Obj comparable] struct {
	// since is when that began, taken is how many changes main has seen since.
	since time.Duration
	taken int
	// tip is the one to begin if need be.
	tip tip[Obj]
}

// catchUp ends the tip: main sees all there is.
func (o *observer[Obj]) catchUp() {
	if o.behind == nil {
		return
	}
	if o.behind.tip.deletions != nil {
		o.behind.tip.deletions.Close()
	}
	o.quick = o.tip == nil
	o.behind, o.tip = nil, nil
}

// observeTip hands the core the latest changes.
func (l *Loop[Obj]) observeTip(txn statedb.ReadTxn, now time.Duration) {
	t, passed := l.observer.tip, l.observer.revision
	// What main has passed since it fell behind it has seen.
	t.set(passed, passed)
	l.observeDeletions(txn, passed)
	mark := t.mark
	t.mark = l.cfg.Table.Revision(txn)
	if l.readTip(txn) {
		t.lagging = false
		return
	}
	if !t.lagging {
		t.lagging, t.laggingSince = true, now
	}
	if now-t.laggingSince >= behindTime {
		// What is passed over here is part of the backlog.
		t.lagging = false
		t.set(mark, l.observer.revision)
	}
}

// readTip hands the core the objects that were written since the last look. It returns
// false if there was no room for all.
func (l *Loop[Obj]) readTip(txn statedb.ReadTxn) bool {
	t := l.observer.tip
	last := &t.seen[len(t.seen)-1]
	if l.core.RoomFor(false) <= 0 {
		return last.upTo >= t.mark
	}
	taken := 0
	defer func() { l.observer.passed.add(last.upTo, taken) }()
	for object, revision := range l.cfg.Table.LowerBound(txn, statedb.ByRevision[Obj](last.upTo+1)) {
		last.upTo = revision
		lane, wanted := l.wanted(nil, statedb.Change[Obj]{Object: object, Revision: revision})
		if !wanted {
			continue
		}
		taken++
		l.core.Observe(object, revision, false, lane)
		if l.core.RoomFor(false) <= 0 {
			return last.upTo >= t.mark
		}
	}
	last.upTo = max(last.upTo, t.mark)
	return true
}

// observeDeletions hands the core the latest deletions, of those that main has not
// passed.
func (l *Loop[Obj]) observeDeletions(txn statedb.ReadTxn, passed statedb.Revision) {
	t := l.observer.tip
	if l.core.RoomFor(false) <= 0 {
		return
	}
	changes, watch := t.deletions.Next(txn)
	select {
	case <-watch:
	default:
		return
	}
	skipped := 0
	for change, revision := range changes {
		if change.Deleted {
			t.deleted = revision
		}
		if !change.Deleted || revision <= passed {
			if skipped++; skipped == stride {
				return
			}
			continue
		}
		lane, wanted := l.wanted(nil, change)
		if !wanted {
			continue
		}
		l.core.Observe(change.Object, revision, true, lane)
		if l.core.RoomFor(false) <= 0 {
			return
		}
	}
}

// set makes the tip read on after a revision. What main has passed is forgotten.
func (t *tip[Obj]) set(after, passed statedb.Revision) {
	for len(t.seen) > 1 && t.seen[0].upTo <= passed {
		t.seen = t.seen[1:]
	}
	last := &t.seen[len(t.seen)-1]
	if after <= last.upTo {
		return
	}
	if last.after == last.upTo {
		*last = revisions{after, after}
	} else {
		t.seen = append(t.seen, revisions{after, after})
	}
}

// saw reports whether the version of an object with a revision was read.
func (t *tip[Obj]) saw(revision statedb.Revision) bool {
	i := sort.Search(len(t.seen), func(i int) bool { return revision <= t.seen[i].upTo })
	return i < len(t.seen) && revision > t.seen[i].after
}

// sawChange reports whether a change was read.
func (t *tip[Obj]) sawChange(change statedb.Change[Obj]) bool {
	if change.Deleted {
		return change.Revision > t.start && change.Revision <= t.deleted
	}
	return t.saw(change.Revision)
}
