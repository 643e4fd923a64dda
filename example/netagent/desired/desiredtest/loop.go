// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package desiredtest stands for the reconcilers of package desired in tests without them.
package desiredtest

import (
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// Loop reports the statuses that a test sets. A row that was written since is Pending.
type Loop[Row comparable] struct {
	table    statedb.Table[Row]
	statuses map[statedb.Revision]reconciler.Status
}

// NewLoop returns a Loop in which every row of the table is Pending.
func NewLoop[Row comparable](table statedb.Table[Row]) *Loop[Row] {
	return &Loop[Row]{table, make(map[statedb.Revision]reconciler.Status)}
}

// Set sets the status of a row that the table has.
func (l *Loop[Row]) Set(txn statedb.ReadTxn, row Row, status reconciler.Status) {
	l.statuses[l.revision(txn, row)] = status
}

// SetAll sets the status of all rows.
func (l *Loop[Row]) SetAll(txn statedb.ReadTxn, status reconciler.Status) {
	for _, revision := range l.table.All(txn) {
		l.statuses[revision] = status
	}
}

// StatusWatch returns the status of a row.
func (l *Loop[Row]) StatusWatch(txn statedb.ReadTxn, row Row) (reconciler.Status, bool, []<-chan struct{}) {
	if status, set := l.statuses[l.revision(txn, row)]; set {
		return status, true, nil
	}
	return reconciler.StatusPending(), true, nil
}

// revision returns the revision of a row, 0 if the table does not have it.
func (l *Loop[Row]) revision(txn statedb.ReadTxn, row Row) statedb.Revision {
	for other, revision := range l.table.All(txn) {
		if other == row {
			return revision
		}
	}
	return 0
}
