// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import "github.com/cilium/statedb"

// SetMaxRows sets the number of rows of a transaction. It must be called before the first run.
func (d *Derived[In, Out]) SetMaxRows(n int) { d.maxRows = n }

// Tracked returns the number of inputs and of places that are remembered.
func (d *Derived[In, Out]) Tracked() (inputs, places int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.claims.Inputs), len(d.claims.Places)
}

// Waiting returns the number of rows that are derived in the next round.
func (d *Derived[In, Out]) Waiting() int { return len(d.joins.again) }

// WrapChanges replaces the iterator of the input. It must be called before the first run.
func (d *Derived[In, Out]) WrapChanges(wrap func(statedb.ChangeIterator[In]) statedb.ChangeIterator[In]) {
	d.main.Iterator = wrap(d.main.Iterator)
}

// WrapChanges replaces the iterator of a further input. It must be called before the first run.
func (j *Joined[Row, Key]) WrapChanges(wrap func(statedb.ChangeIterator[Row]) statedb.ChangeIterator[Row]) {
	j.table.Iterator = wrap(j.table.Iterator)
}

// Last returns the snapshot that is kept.
func (d *Derived[In, Out]) Last() statedb.ReadTxn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.joins.last
}
