// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

import (
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

// queue has changes that a cursor has read, that ask for an operation, and that were not handed over yet, in the
// order of their revisions.
type queue[Obj any] struct {
	changes []core.Change[Obj]
	// upTo is the revision up to which the cursor has read.
	upTo statedb.Revision
	// taken counts the changes that were taken.
	taken int
}

func (q *queue[Obj]) isEmpty() bool { return q.taken == len(q.changes) }

// first returns the next change. The queue is not empty.
func (q *queue[Obj]) first() *core.Change[Obj] { return &q.changes[q.taken] }

// take takes the next change. The queue is not empty.
func (q *queue[Obj]) take() core.Change[Obj] {
	q.taken++
	return q.changes[q.taken-1]
}

// handedOver returns the revision up to which all changes were taken.
func (q *queue[Obj]) handedOver() statedb.Revision {
	if q.isEmpty() {
		return q.upTo
	}
	return q.first().Revision - 1
}

// empty forgets the changes.
func (q *queue[Obj]) empty() {
	clear(q.changes)
	q.changes, q.taken = q.changes[:0], 0
}

// reader knows what a row asks for.
type reader[Obj any] struct {
	rows  *rows.Rows[Obj]
	core  *core.Core[Obj]
	waits Waits
	hooks Hooks[Obj]
	// windows: in this pass the waits may lower the revision since which a row is not reconciled.
	windows bool
	// unset counts the read changes of rows without a status.
	unset uint64
}

// readChange reads a change of the table, and adds it to a queue if it asks for an operation. Most changes that do
// not are status writes of this and other reconcilers: the core needs those only for keys that have an
// entry.
func (r *reader[Obj]) readChange(to *queue[Obj], of statedb.Change[Obj]) {
	if of.Deleted {
		to.changes = append(to.changes, core.Change[Obj]{Obj: of.Object, Revision: of.Revision, Since: of.Revision, Deleted: true, Lane: core.Deletion})
		return
	}
	if c, wanted := r.rowChange(of.Object, of.Revision); wanted {
		to.changes = append(to.changes, c)
	}
}

// rowChange returns the change of a row, and reports whether it asks for an operation.
func (r *reader[Obj]) rowChange(row Obj, revision statedb.Revision) (c core.Change[Obj], wanted bool) {
	s := r.rows.Asked(row)
	switch s.Kind {
	case status.KindPending, status.KindRefreshing:
		c = core.Change[Obj]{Obj: row, Revision: revision, Since: r.unreconciledSince(s, revision), Lane: core.Backlog}
		if s.Kind == status.KindRefreshing {
			c.Lane = core.Refresh
		}
		return c, true
	case status.KindUnset:
		if r.unset++; r.unset == 1 {
			r.hooks.FirstUnset(row, revision)
		}
		r.handSettled(row, revision, core.RowUnset)
	case status.KindDone:
		r.handSettled(row, revision, core.RowDone)
	default:
		r.handSettled(row, revision, core.RowFailed)
	}
	return c, false
}

// unreconciledSince returns the revision since which a row with a status is not reconciled.
func (r *reader[Obj]) unreconciledSince(s status.Status, revision statedb.Revision) statedb.Revision {
	if !r.windows {
		return revision
	}
	return r.waits.Since(s.ID, revision)
}

// handSettled hands the core a row that asks for no operation.
func (r *reader[Obj]) handSettled(row Obj, revision statedb.Revision, s core.RowStatus) {
	if r.core.ObserveSettled(row, revision, s) {
		r.hooks.Forgotten(row, revision)
	}
	r.hooks.Seen(row)
}
