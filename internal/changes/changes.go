// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package changes reads the changes of a table up to a snapshot of several tables. A commit is in snapshots a moment
// before the iterator of a table knows of it, so that one iterator may lag behind a snapshot, and another one not.
package changes

import (
	"context"
	"fmt"
	"iter"

	"github.com/cilium/statedb"
)

// Table is a table whose changes are read. One goroutine at a time uses it.
type Table[Row any] struct {
	statedb.Table[Row]
	// Iterator is nil before Open and after Close.
	Iterator statedb.ChangeIterator[Row]
	// read is the revision up to which all changes were read.
	read statedb.Revision
}

// Open begins to follow the table, which wtxn has locked. Rows that were deleted before are not read.
func (t *Table[Row]) Open(wtxn statedb.WriteTxn) (err error) {
	if t.Iterator, err = t.Changes(wtxn); err != nil {
		return fmt.Errorf("observing table %q: %w", t.Name(), err)
	}
	return nil
}

// Close ends that. It locks the table for a moment.
func (t *Table[Row]) Close() {
	if t.Iterator != nil {
		t.Iterator.Close()
		t.Iterator = nil
	}
}

// Await waits until the iterator knows of all changes up to a snapshot. It returns false if ctx has ended before.
func (t *Table[Row]) Await(ctx context.Context, txn statedb.ReadTxn) bool {
	if t.IsRead(txn) {
		return true
	}
	select {
	case <-t.More(txn):
		return true
	case <-ctx.Done():
		return false
	}
}

// IsRead reports whether all changes up to a snapshot were read.
func (t *Table[Row]) IsRead(txn statedb.ReadTxn) bool { return t.read >= t.Revision(txn) }

// Next yields the changes up to a snapshot that were not read, of a row the last one. Await has returned true for it.
// If the caller stops early, a later call yields the rest.
func (t *Table[Row]) Next(txn statedb.ReadTxn) iter.Seq[statedb.Change[Row]] {
	return func(yield func(statedb.Change[Row]) bool) {
		unread, _ := t.Iterator.Next(txn)
		for change := range unread {
			if !yield(change) {
				return
			}
		}
		t.read = t.Revision(txn)
	}
}

// More returns a channel that is closed when there are changes that were not read.
func (t *Table[Row]) More(txn statedb.ReadTxn) <-chan struct{} {
	unread, more := t.Iterator.Next(txn)
	if t.IsRead(txn) {
		for range unread { // it is closed until all is read, also if that is nothing
		}
		_, more = t.Iterator.Next(txn)
	}
	return more
}
