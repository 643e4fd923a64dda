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
	statuses map[Row]reconciler.Status
}

// NewLoop returns a Loop in which every row of the table is Pending.
func NewLoop[Row comparable](table statedb.Table[Row]) *Loop[Row] {
	return &Loop[Row]{table, make(map[Row]reconciler.Status)}
}

// Set sets the status of a row that the table has.
func (l *Loop[Row]) Set(_ statedb.ReadTxn, row Row, status reconciler.Status) {
	l.statuses[row] = status
}

// SetAll sets the status of all rows.
func (l *Loop[Row]) SetAll(txn statedb.ReadTxn, status reconciler.Status) {
	for row := range l.table.All(txn) {
		l.statuses[row] = status
	}
}

// StatusWatch returns the status of a row.
func (l *Loop[Row]) StatusWatch(_ statedb.ReadTxn, row Row) (reconciler.Status, bool, []<-chan struct{}) {
	if status, set := l.statuses[row]; set {
		return status, true, nil
	}
	return reconciler.StatusPending(), true, nil
}
