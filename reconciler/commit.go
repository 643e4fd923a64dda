// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/status"
)

// result is what an operation came back with.
type result uint8

const (
	resultDone result = iota
	resultFailed
	resultTerminal
	resultBlocked
	resultRequeue
)

var resultNames = [...]string{"done", "failed", "terminal", "blocked", "requeue"}

func (r result) String() string { return resultNames[r] }

// attempt is what the loop knows of a task beside what the executor sees: where it
// came from, and what became of it.
type attempt[Obj any] struct {
	// item is the index in the plan, number counts the key's attempts from 1.
	item, number int32

	// row is the object as it stood in the table, with the parts of its status
	// that the commit compares.
	row     Obj
	rowKind status.Kind
	rowID   uint64
	rowText *string

	result result
	// text is the error's text or the reason; delay belongs to some results.
	text  *string
	delay time.Duration
	watch []<-chan struct{}
	// news: the status says something new, and is to be written.
	news bool

	// After the commit: the object and the revision that stand in the table now,
	// unless the outcome was lost.
	committed Obj
	revision  statedb.Revision
	lost      bool
}

// judge says what an operation's return value means for the object's status.
func (a *attempt[Obj]) judge(err error) {
	if err == nil {
		a.result, a.news = resultDone, a.rowKind != status.KindDone
		return
	}
	kind := status.KindError
	a.result = resultFailed
	if d := directiveOf(err); d != nil {
		a.delay, a.watch = d.delay, d.watch
		switch d.kind {
		case core.DoneAgain:
			a.result, a.news = resultRequeue, a.rowKind != status.KindDone
			return
		case core.BlockedOn:
			a.result, kind = resultBlocked, status.KindBlocked
		case core.FailedForGood:
			a.result = resultTerminal
		}
	}
	text := err.Error()
	if a.rowKind == kind && a.rowText != nil && *a.rowText == text {
		a.text = a.rowText
		return
	}
	// A copy, so that only a text that is news goes to the heap.
	fresh := text
	a.text, a.news = &fresh, true
}

// status returns the status that says what came of the attempt.
func (a *attempt[Obj]) status(at time.Time) Status {
	switch a.result {
	case resultDone, resultRequeue:
		return status.DoneAt(at)
	case resultBlocked:
		return status.BlockedText(at, a.text)
	default:
		return status.ErrorText(at, a.text)
	}
}

// outcome returns what the attempt means for the core.
func (a *attempt[Obj]) outcome() core.Outcome[Obj] {
	out := core.Outcome[Obj]{
		Delay: a.delay, Lost: a.lost, Obj: a.committed, Revision: a.revision,
	}
	switch a.result {
	case resultDone:
		out.Kind = core.Done
	case resultFailed:
		out.Kind, out.Failure = core.Failed, a.text
	case resultTerminal:
		out.Kind, out.Failure = core.FailedForGood, a.text
	case resultBlocked:
		out.Kind = core.BlockedOn
	case resultRequeue:
		out.Kind = core.DoneAgain
	}
	return out
}

// commit writes the outcomes that are news into the table, in one transaction.
func (l *Loop[Obj]) commit(r *Round, tasks []task[Obj], attempts []attempt[Obj]) {
	news := l.prepareCommit(tasks, attempts)
	if news == 0 {
		return
	}
	began := l.now()
	wtxn := l.cfg.DB.WriteTxn(l.cfg.Table)
	for i := range tasks {
		if attempts[i].news {
			l.commitOne(wtxn, r, &tasks[i], &attempts[i])
		}
	}
	wtxn.Commit()
	r.CommitTook = l.now() - began
	// Looking before writing is cheaper than failing to swap, but only while there
	// is somebody else who writes.
	l.contended = r.Conflicts+r.Lost > news/8
}

// prepareCommit makes everything that the commit is going to write, before the table
// is locked, and returns how many statuses that is.
func (l *Loop[Obj]) prepareCommit(tasks []task[Obj], attempts []attempt[Obj]) (news int) {
	at := time.Now()
	for i := range tasks {
		t, a := &tasks[i], &attempts[i]
		a.judge(t.err)
		if t.deleted {
			a.news, a.committed, a.revision = false, t.object, t.revision
			continue
		}
		if !a.news {
			a.committed, a.revision = a.row, t.revision
			continue
		}
		news++
		t.object = l.cfg.SetStatus(t.object, a.status(at))
		a.committed = t.object
	}
	return news
}

func (l *Loop[Obj]) commitOne(wtxn statedb.WriteTxn, r *Round, t *task[Obj], a *attempt[Obj]) {
	if l.contended {
		current, revision, found := l.cfg.Table.Get(wtxn, l.indexer.QueryFromObject(a.row))
		if !found || revision != t.revision {
			l.reconcileConflict(wtxn, r, a, current, found)
			return
		}
	}
	current, found, err := l.cfg.Table.CompareAndSwap(wtxn, t.revision, t.object)
	switch {
	case err == nil:
		r.Written++
		a.revision = l.cfg.Table.Revision(wtxn)
	default:
		l.reconcileConflict(wtxn, r, a, current, found && errors.Is(err, statedb.ErrRevisionNotEqual))
	}
}

// reconcileConflict commits onto an object that is not the one that was reconciled. If
// it still wants what the operation was given, only another reconciler's status can
// have been written, and this one's is added; else the outcome is lost.
func (l *Loop[Obj]) reconcileConflict(wtxn statedb.WriteTxn, r *Round, a *attempt[Obj], current Obj, found bool) {
	if found {
		now := l.cfg.GetStatus(current)
		found = now.ID != 0 && now.ID == a.rowID && now.Kind == a.rowKind
	}
	if !found {
		a.lost = true
		r.Lost++
		return
	}
	a.committed = l.cfg.SetStatus(l.cfg.Clone(current), a.status(time.Now()))
	if _, _, err := l.cfg.Table.Insert(wtxn, a.committed); err != nil {
		a.lost = true
		r.Lost++
		return
	}
	r.Written++
	r.Conflicts++
	a.revision = l.cfg.Table.Revision(wtxn)
}
