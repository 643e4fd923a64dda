// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"math"
	"time"
)

// entry is the state of a key that waits or is worked on. A call sets its facts at will, and then [queues.put] or
// [Index.reindex] brings what is derived from them up to date. But the facts that decide the queue of an entry
// change only while it is in none: [queues.take] takes it out. The fields are ordered to save memory: there may be
// millions of entries.
type entry[Obj any] struct {
	key string
	// version is the version of the object that runs next or, of a key in flight, that runs. later is the
	// newest one that was read since that began to run; nil if there is none. The outcome decides which counts.
	version rowVersion[Obj]
	later   *rowVersion[Obj]
	// prev and next are the neighbours in the entry's queue.
	prev, next *entry[Obj]
	// dueAt is when the entry is due, if it waits for a time; otherwise when its change was
	// observed, or noTime.
	dueAt time.Duration
	// group is the group that the entry holds or waits for; nil if none.
	group *group[Obj]
	past  past
	// indexed is what the indexes have of the entry.
	indexed indexed
	// pos is the position in the heap of due keys; -1 means not in the heap.
	pos   int32
	state State
	// from is the state that the entry had when its turn came.
	from State
	// cause is the reason for the next run.
	cause Cause
	// refresh: the success of the operation that runs does not count. verify: the object is to be looked at when the
	// operation has ended. See [Core.Refresh].
	refresh, verify bool
	// home is where the key waited before it was to be looked at; nil if it goes nowhere after the look.
	home *home
}

// home is where a key waits, apart from what it waits for.
type home struct {
	state State
	dueAt time.Duration
	cause Cause
}

// rowVersion is a version of an object, as it was observed, and how far it was dealt with.
type rowVersion[Obj any] struct {
	obj Obj
	// revision is the revision of obj. since is the revision since which the key is not reconciled: that
	// of the first version that asked for the same or, for a key that fails after it was reconciled, as
	// in unreconcile. It is 0 if the key is reconciled, or the row asks for no operation.
	revision, since uint64
	// wanted is when the change was written; 0 means that the time must be read from the object.
	wanted time.Duration
	// seen is the number of the round in which the version was observed.
	seen    uint32
	lane    Lane
	deleted bool
	// tried: an operation was attempted for the change. paused: the object must not be worked on.
	tried, paused bool
	// outdated: a later version of the row may have been read, which the entry does not have: one that asks for no
	// operation, or one that was run before. repeats: the version was reconciled before, and an operation has failed since.
	outdated, repeats bool
	// asks is other than rowAsks only in the version entry.later.
	asks RowStatus
}

// past is what the last operations on a key came to.
type past struct {
	// ended is when the last one ended, noTime if none has.
	ended time.Duration
	// text is the text of the last attempt, if that failed or was blocked.
	text *string
	// failures counts the failures in a row, tries those since the object changed.
	failures, tries int32
	// requeues counts the outcomes in a row that asked for a backoff without a failure. It stops at
	// 255: every backoff is at its maximum by then.
	requeues uint8
	// rowKind is that of the last outcome, see [Outcome.RowKind].
	rowKind uint8
	result  result
	// fixed: the time of the retry is not a backoff. The outcome set it, or EndBackoffs.
	fixed bool
	// applies: a call was asked for, although the target may be right, and none has succeeded since, or the object is being
	// deleted. deletes: an update deletes it, and has not succeeded. polls: the last success asked for another run.
	applies, deletes, polls bool
}

// result is the result of an attempt, as far as it is counted.
type result uint8

const (
	// wentWell: the attempt neither failed nor was blocked, or there was none.
	wentWell result = iota
	hasFailed
	wasBlocked
)

// noTime is the dueAt of a blocked entry that has no recheck time.
const noTime = -1

func (e *entry[Obj]) HeapPos() int       { return int(e.pos) }
func (e *entry[Obj]) SetHeapPos(pos int) { e.pos = int32(pos) }

// newest returns the newest version that was observed.
func (e *entry[Obj]) newest() *rowVersion[Obj] {
	if e.later != nil {
		return e.later
	}
	return &e.version
}

// failure returns the text of the last error; empty if the last attempt did not fail.
func (p *past) failure() string { return p.textOf(hasFailed) }

// reason returns why the last attempt was blocked; empty if it was not.
func (p *past) reason() string { return p.textOf(wasBlocked) }

func (p *past) textOf(r result) string {
	if p.result != r || p.text == nil {
		return ""
	}
	return *p.text
}

// unblock makes a key no longer count as blocked: its last attempt says nothing about a new change.
func (p *past) unblock() {
	if p.result == wasBlocked {
		p.result = wentWell
	}
}

// count counts an attempt that ended at the time now.
func (e *entry[Obj]) count(now time.Duration, op *Operation[Obj], out *Outcome[Obj]) {
	p, why := &e.past, e.why()
	asked := why == CauseRefresh || why == CauseRequeue && op.Run.Look == nil
	p.deletes = !out.Succeeded() && (p.deletes || op.Run.Deletion)
	p.applies = !out.Succeeded() && (p.applies || asked || out.Kind == Deleting || p.deletes)
	p.polls = op.Run.Polls || p.polls && (op.FoundRight() || !out.Succeeded() && !op.Run.Worked)
	e.version.tried, e.cause = true, CauseChange
	// What fails without a change, such as a refresh, is wanted since now.
	e.version.wanted = cmp.Or(e.version.wanted, out.Wanted, now)
	p.ended, p.rowKind, p.result, p.text = now, out.RowKind, wentWell, out.Text
	if !out.backsOff() {
		p.requeues = 0
	} else if p.requeues < math.MaxUint8 {
		p.requeues++
	}
	switch out.Kind {
	case Failed, FailedForGood:
		p.failures++
		p.tries++
		p.result = hasFailed
	case Done, DoneAgain, Deleting:
		p.failures, p.tries = 0, 0
	}
	if (out.Kind == BlockedOn || out.Kind == Deleting) && !out.Lost {
		p.result = wasBlocked
	}
}

// sameFunc is [Config.SamePending].
type sameFunc[Obj any] func(older, newer Obj) bool

// of reports whether a version asks for the same as an older one.
func (s sameFunc[Obj]) of(older, newer *rowVersion[Obj]) bool {
	return s != nil && !older.deleted && !newer.deleted && s(older.obj, newer.obj)
}

// asAttemptOf reports whether the change of an entry has not been attempted and the given version asks for the same.
func (s sameFunc[Obj]) asAttemptOf(e *entry[Obj], v *rowVersion[Obj]) bool {
	return !e.version.tried && e.version.since > 0 && s.of(&e.version, v)
}

// take stores a later version in an entry. One that asks for the same as a change that has not been attempted is no
// new change.
func (e *entry[Obj]) take(v *rowVersion[Obj], same sameFunc[Obj], now time.Duration) {
	if has := &e.version; same.asAttemptOf(e, v) {
		has.obj, has.revision, has.seen, has.paused, has.outdated = v.obj, v.revision, v.seen, v.paused, v.outdated
		has.lowerSince(v.since)
		return
	}
	e.version, e.home, e.past.applies, e.past.deletes = *v, nil, false, false
	e.from, e.past.tries, e.dueAt, e.cause = Ready, 0, now, CauseChange
	e.past.unblock()
	if v.deleted {
		// A deletion does not inherit the backoff of its object.
		e.past.failures, e.past.requeues = 0, 0
	}
}

// overtake stores a version that was read while the operation of an entry runs an older one.
func (e *entry[Obj]) overtake(v rowVersion[Obj], same sameFunc[Obj]) {
	if last := e.newest(); v.asks == rowAsks && last.asks == rowAsks && last.since > 0 && same.of(last, &v) {
		v.since = min(v.since, last.since)
	}
	if e.later == nil {
		e.later = new(rowVersion[Obj])
	}
	*e.later = v
	if v.asks == rowAsks {
		e.version.lowerSince(v.since)
	}
}

// observeOlder records a change that is not newer than the newest version: what is unreconciled is so since the
// older change.
func (e *entry[Obj]) observeOlder(change *Change[Obj]) {
	newest := e.newest()
	between := change.Revision > e.version.revision
	if between {
		newest.lowerSince(change.Since)
	}
	if !between || newest.asks == rowAsks {
		e.version.lowerSince(change.Since)
	}
	if !between && change.Deleted && e.cause == CauseOrphan {
		// A resync added the object as an orphan before the cursor read its deletion, and the
		// deletion has not been attempted.
		e.version.tried = false
	}
}

// waitsIn reports whether a key is in a state, or will be again after a look.
func (e *entry[Obj]) waitsIn(s State) bool { return e.state == s || e.home != nil && e.home.state == s }

// why returns the cause of the entry's next operation.
func (e *entry[Obj]) why() Cause {
	switch {
	case e.cause != CauseChange:
		return e.cause
	case e.from == Retry:
		return CauseRetry
	case e.from == Requeue:
		return CauseRequeue
	case e.from == Blocked:
		return CauseRecheck
	}
	return e.version.lane.why()
}

// looks returns [Turn.Looks] of the entry's next operation.
func (e *entry[Obj]) looks() bool {
	switch e.why() {
	case CauseVerify, CauseOrphan:
		return true
	case CauseRepair:
		return !e.past.applies
	case CauseChange, CauseRefresh, CauseRequeue:
		return false
	}
	return e.version.tried && e.past.failures > 0 && !e.past.applies
}

// lowerSince lowers the revision since which a version is unreconciled to the given one: an earlier change
// is reconciled only together with the later one. It does nothing if the version is reconciled, or
// unreconciled since a lower revision.
func (v *rowVersion[Obj]) lowerSince(revision uint64) { v.since = min(v.since, revision) }

// after returns t+d, or the largest time if the sum would overflow: users write "never" as the
// longest delay.
func after(t, d time.Duration) time.Duration {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + d
}

// byRevision orders entries by the revision of their newest version, then by key: orphans may share a revision.
func byRevision[Obj any](a, b *entry[Obj]) int {
	return cmp.Or(cmp.Compare(a.newest().revision, b.newest().revision), cmp.Compare(a.key, b.key))
}
