// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

import (
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/status"
)

// change is a change that a cursor has read and that asks for an operation.
type change[Obj any] struct {
	object Obj
	// since is the revision since which the change is not reconciled.
	revision, since statedb.Revision
	deleted         bool
	lane            core.Lane
}

// read converts a change of the table, and reports whether it asks for an operation. Most changes
// that do not are status writes of this and other reconcilers: the core gets those only if it needs
// them. ahead reports that the main cursor has not reached the change.
func (o *Observer[Obj]) read(of statedb.Change[Obj], ahead bool) (c change[Obj], wanted bool) {
	c = change[Obj]{object: of.Object, revision: of.Revision, since: of.Revision, deleted: of.Deleted, lane: core.Deletion}
	if of.Deleted {
		return c, true
	}
	if o.appliedEarly(of.Object, of.Revision) {
		return c, false
	}
	switch s := o.rows.Asked(of.Object); s.Kind {
	case status.KindPending:
		c.lane, c.since = core.Backlog, o.unreconciledSince(s, of.Revision, ahead)
		return c, true
	case status.KindRefreshing:
		c.lane, c.since = core.Refresh, o.unreconciledSince(s, of.Revision, ahead)
		o.refreshes++
		return c, true
	case status.KindUnset:
		if o.unset++; o.unset == 1 {
			o.hooks.FirstUnset(of.Object, of.Revision)
		}
		if o.core.Tracks() {
			o.handSettled(of, core.RowUnset)
		}
	case status.KindDone:
		if o.core.NeedsSettled() {
			o.handSettled(of, core.RowDone)
		}
	default:
		if o.core.NeedsSettled() {
			o.handSettled(of, core.RowFailed)
		}
	}
	return c, false
}

// unreconciledSince returns the revision since which a row with a status is not reconciled.
func (o *Observer[Obj]) unreconciledSince(s status.Status, revision statedb.Revision, ahead bool) statedb.Revision {
	if !o.marked {
		return revision
	}
	return o.waits.Since(s.ID, revision, ahead)
}

// handSettled hands the core a row that asks for no operation.
func (o *Observer[Obj]) handSettled(of statedb.Change[Obj], s core.RowStatus) {
	if o.core.ObserveSettled(of.Object, of.Revision, s) {
		o.hooks.Forgotten(of.Object)
	}
}
