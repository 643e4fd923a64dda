// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/journal"
	"github.com/statekeel/statekeel/reconciler/inspect"
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
// came from, and what became of it. It is kept small: there is one for each object that
// is reconciled.
type attempt[Obj any] struct {
	// row is the object as it stood in the table.
	row Obj
	// directive is what the operation returned, if it was one.
	directive *directive
	// text is the error's text or the reason of a block.
	text *string
	// note is that of [Note]; nil if there is none.
	note *string
	// revision is that of the object in the table after the commit, for the results
	// that make the key wait.
	revision statedb.Revision
	// item is the index in the plan, number counts the key's attempts from 1, tries is
	// how many of them failed since the object changed.
	item, number, tries int32

	// wanted is when the change was written, by the loop's clock; 0 if not known yet.
	wanted time.Duration
	// class is that of the failure, if it is classed; cause why it was run.
	class   string
	classed bool
	cause   journal.Cause

	result result
	// change: it was of a change, not to apply again what had been.
	change bool
	// conflict: the status was written onto what another reconciler had written.
	conflict bool
	// again: the key had waited, and its status need not be Pending or Refreshing.
	again bool
	// news: the status says something new, and is to be written.
	news bool
	// lost: the object changed while the operation ran.
	lost bool
	// givenUp: it failed too often, so that its failure is final.
	givenUp bool
	// deletion: the update was to remove the object from the target, as its adapter said.
	deletion bool
	// changed: the adapter changed the object, which is written with the outcome.
	changed bool
}

// judge says what an operation's return value means for the object's status, was. last
// is the text that was news last: what fails together mostly fails with the same, which
// then need be kept once only. An update that failed more than maxRetries times is given
// up, unless that is 0. A deletion is never given up, whatever its operation says: the next
// change that would run it again may never come.
func (a *attempt[Obj]) judge(t *task[Obj], was func(Obj) Status, last **string, maxRetries int) {
	err, deletion := t.err, t.deleted || a.deletion
	kind := status.KindError
	a.result = resultFailed
	if err == nil {
		a.result = resultDone
	} else if a.directive = directiveOf(err); a.directive != nil {
		switch a.directive.kind {
		case core.DoneAgain:
			a.result = resultRequeue
			if deletion {
				a.result, kind, err = resultBlocked, status.KindBlocked, errDeleting
			}
		case core.BlockedOn:
			a.result, kind = resultBlocked, status.KindBlocked
		case core.FailedForGood:
			if !deletion {
				a.result = resultTerminal
			}
		}
	}
	if a.result == resultDone || a.result == resultRequeue {
		a.news = a.changed || !a.again || was(a.row).Kind != status.KindDone
		return
	}
	text := textOf(err)
	if a.result == resultFailed && maxRetries > 0 && !deletion && int(a.tries) >= maxRetries {
		a.result, a.givenUp = resultTerminal, true
		text = fmt.Sprintf("given up after %d retries: %s", a.tries, text)
	}
	if old := was(a.row); old.Kind == kind && old.Error != nil && *old.Error == text {
		a.text, a.news = old.Error, a.changed
		return
	}
	if *last == nil || **last != text {
		// A copy, so that only a text that is news goes to the heap, and no long text of which it
		// is a piece is held.
		fresh := strings.Clone(text)
		*last = &fresh
	}
	a.text, a.news = *last, true
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

// stillDeleting reports whether a deletion was begun and goes on.
func (a *attempt[Obj]) stillDeleting() bool {
	return a.result == resultBlocked && a.directive.kind == core.DoneAgain
}

// outcome returns what the attempt means for the core; object is the version that
// stands in the table.
func (a *attempt[Obj]) outcome(object Obj) core.Outcome[Obj] {
	out := core.Outcome[Obj]{Lost: a.lost, Obj: object, Revision: a.revision}
	if a.directive != nil {
		out.Delay, out.Backoff = a.directive.delay, a.directive.backoff
	}
	switch a.result {
	case resultDone:
		out.Kind = core.Done
	case resultFailed:
		out.Kind, out.Failure = core.Failed, a.text
		out.Final = a.directive != nil && a.directive.kind == core.FailedForGood
	case resultTerminal:
		out.Kind, out.Failure, out.GivenUp = core.FailedForGood, a.text, a.givenUp
	case resultBlocked:
		out.Kind = core.BlockedOn
		if a.stillDeleting() {
			out.Kind = core.Deleting
		}
	case resultRequeue:
		out.Kind = core.DoneAgain
	}
	return out
}

// commit writes the outcomes that are news into the table, in one transaction.
func (l *Loop[Obj]) commit(r *inspect.Round, tasks []task[Obj], attempts []attempt[Obj]) {
	news := l.prepareCommit(tasks, attempts)
	if news == 0 {
		return
	}
	began, written := l.now(), r.Written
	wtxn := l.rows.DB.WriteTxn(l.rows.Table)
	// A panic in a user's function must not leave the table locked for ever.
	defer wtxn.Abort()
	for i := range tasks {
		if attempts[i].news {
			l.commitOne(wtxn, r, &tasks[i], &attempts[i])
		}
	}
	l.observer.passed.add(l.rows.Table.Revision(wtxn), r.Written-written)
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
	var last *string
	for i := range tasks {
		t, a := &tasks[i], &attempts[i]
		a.revision = t.revision
		a.judge(t, l.rows.GetStatus, &last, l.set.MaxRetries)
		switch {
		case t.deleted:
			a.news = false
		case a.news:
			news++
			if t.err == errGoexit {
				// It may be the row itself: the goroutine may have ended before there was a clone.
				t.object = l.rows.Clone(a.row)
			}
			t.object = l.rows.SetStatus(t.object, a.status(at))
		default:
			t.object = a.row
		}
	}
	return news
}

func (l *Loop[Obj]) commitOne(wtxn statedb.WriteTxn, r *inspect.Round, t *task[Obj], a *attempt[Obj]) {
	if l.contended || t.merged {
		current, revision, found := l.rows.Get(wtxn, a.row)
		if !found || revision != t.revision || t.merged {
			l.commitOnto(wtxn, r, t, a, current, found)
			return
		}
	}
	current, found, err := l.rows.Table.CompareAndSwap(wtxn, t.revision, t.object)
	if err == nil {
		r.Written++
		if a.result != resultDone || l.pooled {
			a.revision = l.rows.Table.Revision(wtxn)
		}
	} else {
		l.commitOnto(wtxn, r, t, a, current, found && errors.Is(err, statedb.ErrRevisionNotEqual))
	}
}

// commitOnto commits onto an object that is not the one that was reconciled. If it
// still wants what the operation was given, only another reconciler's status can have
// been written, and this one's is added; else the outcome is lost.
func (l *Loop[Obj]) commitOnto(wtxn statedb.WriteTxn, r *inspect.Round, t *task[Obj], a *attempt[Obj], current Obj, found bool) {
	if key := l.rows.Key(a.row); !bytes.Equal(l.rows.Key(t.object), key) {
		// The operation has changed the key of its clone: what it left there is of no row.
		l.log.Error("an operation changed the primary key of its object; what it set on the object is dropped",
			"table", l.rows.Table.Name(), "key", key, "operation", t.operation())
		current, _, found = l.rows.Get(wtxn, a.row)
		t.object = l.rows.Clone(a.row)
	}
	if found = found && l.rows.SamePending(a.row, current); found {
		onto := l.rows.Clone(current)
		if l.rows.Merge != nil {
			onto = l.rows.Merge(onto, t.object)
		}
		t.object = l.rows.SetStatus(onto, a.status(time.Now()))
		_, _, err := l.rows.Table.Insert(wtxn, t.object)
		found = err == nil
	}
	if !found {
		a.lost = true
		r.Lost++
		return
	}
	r.Written++
	r.Conflicts++
	a.conflict = true
	a.revision = l.rows.Table.Revision(wtxn)
}
