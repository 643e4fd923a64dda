// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

import (
	"bytes"
	"errors"
	"log/slog"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/rows"
)

// InRows is the ledger in the rows of a table. One goroutine uses it.
type InRows[Obj comparable] struct {
	rows *rows.Rows[Obj]
	log  *slog.Logger
	now  func() time.Duration
	// contended: others write the same rows, so that it looks before it swaps.
	contended bool
}

// New returns the ledger in the rows of a table. now is the loop's clock.
func New[Obj comparable](r *rows.Rows[Obj], log *slog.Logger, now func() time.Duration) *InRows[Obj] {
	return &InRows[Obj]{rows: r, log: log, now: now}
}

// Commit is what was written in one transaction.
type Commit struct {
	// Written counts the statuses that were written, Conflicts those of them that were written
	// onto what another reconciler had written; Lost counts the outcomes that were not, since
	// the object had changed or was deleted.
	Written, Conflicts, Lost int
	// Revision is that of the table after it, Took how long it took, waiting for the table
	// included; zero if there was nothing to write.
	Revision statedb.Revision
	Took     time.Duration
}

// Options say how to write.
type Options struct {
	// MaxRetries is after how many failed attempts an update is given up; 0 means never.
	MaxRetries int
	// Revisions: Attempt.Revision is wanted of all, not only of what is not Done.
	Revisions bool
}

// Write classifies what came of tasks, and writes the outcomes that are news, all in one
// transaction. Each task's Object is then the version that stands in the table.
func (l *InRows[Obj]) Write(tasks []execute.Task[Obj], attempts []Attempt[Obj], o Options) Commit {
	news := l.prepare(tasks, attempts, o.MaxRetries)
	if news == 0 {
		return Commit{}
	}
	var c Commit
	began := l.now()
	wtxn := l.rows.DB.WriteTxn(l.rows.Table)
	// A panic in a user's function must not leave the table locked for ever.
	defer wtxn.Abort()
	for i := range tasks {
		if attempts[i].news {
			l.writeOne(wtxn, &c, &tasks[i], &attempts[i], o.Revisions)
		}
	}
	c.Revision = l.rows.Table.Revision(wtxn)
	wtxn.Commit()
	c.Took = l.now() - began
	// Looking before writing is cheaper than failing to swap, but only while there
	// is somebody else who writes.
	l.contended = c.Conflicts+c.Lost > news/8
	return c
}

// prepare makes everything that is going to be written, before the table is locked, and returns
// how many statuses that is.
func (l *InRows[Obj]) prepare(tasks []execute.Task[Obj], attempts []Attempt[Obj], maxRetries int) (news int) {
	at := time.Now()
	var last *string
	for i := range tasks {
		t, a := &tasks[i], &attempts[i]
		a.Revision = t.Revision
		a.classify(t, l.rows.GetStatus, &last, maxRetries)
		switch {
		case t.Deleted:
			a.news = false
		case a.news:
			news++
			if t.Err == execute.ErrGoexit {
				// It may be the row itself: the goroutine may have ended before there was a clone.
				t.Object = l.rows.Clone(t.Row)
			}
			t.Object = l.rows.SetStatus(t.Object, a.status(at))
		default:
			t.Object = t.Row
		}
	}
	return news
}

func (l *InRows[Obj]) writeOne(wtxn statedb.WriteTxn, c *Commit, t *execute.Task[Obj], a *Attempt[Obj], revisions bool) {
	if l.contended || t.Merged {
		current, revision, found := l.rows.Get(wtxn, t.Row)
		if !found || revision != t.Revision || t.Merged {
			l.writeOnto(wtxn, c, t, a, current, found)
			return
		}
	}
	current, found, err := l.rows.Table.CompareAndSwap(wtxn, t.Revision, t.Object)
	if err == nil {
		c.Written++
		if a.Kind != core.Done || revisions {
			a.Revision = l.rows.Table.Revision(wtxn)
		}
	} else {
		l.writeOnto(wtxn, c, t, a, current, found && errors.Is(err, statedb.ErrRevisionNotEqual))
	}
}

// writeOnto writes onto an object that is not the one that was reconciled. If it
// still wants what the operation was given, only another reconciler's status can have
// been written, and this one's is added; else the outcome is lost.
func (l *InRows[Obj]) writeOnto(wtxn statedb.WriteTxn, c *Commit, t *execute.Task[Obj], a *Attempt[Obj], current Obj, found bool) {
	if key := l.rows.Key(t.Row); !bytes.Equal(l.rows.Key(t.Object), key) {
		// The operation has changed the key of its clone: what it left there is of no row.
		l.log.Error("an operation changed the primary key of its object; what it set on the object is dropped",
			"table", l.rows.Table.Name(), "key", key, "operation", t.Operation())
		current, _, found = l.rows.Get(wtxn, t.Row)
		t.Object = l.rows.Clone(t.Row)
	}
	if found = found && l.rows.SamePending(t.Row, current); found {
		onto := l.rows.Clone(current)
		if l.rows.Merge != nil {
			onto = l.rows.Merge(onto, t.Object)
		}
		t.Object = l.rows.SetStatus(onto, a.status(time.Now()))
		_, _, err := l.rows.Table.Insert(wtxn, t.Object)
		found = err == nil
	}
	if !found {
		a.Lost = true
		c.Lost++
		return
	}
	c.Written++
	c.Conflicts++
	a.Conflict = true
	a.Revision = l.rows.Table.Revision(wtxn)
}
