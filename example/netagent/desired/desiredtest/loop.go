// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package desiredtest stands for the reconcilers of package desired in tests without them.
package desiredtest

import (
	"context"
	"sync"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Loop reports the statuses that a test sets. A row that was written since is Pending.
type Loop[Row comparable] struct {
	table statedb.Table[Row]

	mu       sync.Mutex
	statuses map[Row]reconciler.Status
	verified []Row
	resyncs  int
}

// NewLoop returns a Loop in which every row of the table is Pending.
func NewLoop[Row comparable](table statedb.Table[Row]) *Loop[Row] {
	return &Loop[Row]{table: table, statuses: make(map[Row]reconciler.Status)}
}

// Verify notes rows for Asked.
func (l *Loop[Row]) Verify(_ context.Context, rows ...Row) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.verified = append(l.verified, rows...)
	return nil
}

// Resync counts itself for Asked.
func (l *Loop[Row]) Resync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resyncs++
}

// Asked returns which rows were to be verified, and how often everything, since the last call.
func (l *Loop[Row]) Asked() (verified []Row, resyncs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	verified, resyncs = l.verified, l.resyncs
	l.verified, l.resyncs = nil, 0
	return verified, resyncs
}

// Ready and WaitAll return at once: a test sets what the loop has done.
func (l *Loop[Row]) Ready(context.Context) (rest inspect.Unapplied, _ error) { return rest, nil }

// WaitAll is as Ready.
func (l *Loop[Row]) WaitAll(context.Context, reconciler.Milestone) (rest inspect.Unapplied, _ error) {
	return rest, nil
}

// Set sets the status of a row that the table has.
func (l *Loop[Row]) Set(_ statedb.ReadTxn, row Row, status reconciler.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses[row] = status
}

// SetAll sets the status of all rows.
func (l *Loop[Row]) SetAll(txn statedb.ReadTxn, status reconciler.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for row := range l.table.All(txn) {
		l.statuses[row] = status
	}
}

// StatusWatch returns the status of a row.
func (l *Loop[Row]) StatusWatch(_ statedb.ReadTxn, row Row) (reconciler.Status, bool, []<-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if status, set := l.statuses[row]; set {
		return status, true, nil
	}
	return reconciler.StatusPending(), true, nil
}
