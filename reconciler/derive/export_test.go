// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

// SetMaxRows sets the number of rows of a transaction. It must be called before the first run.
func (d *Derived[In, Out]) SetMaxRows(n int) { d.maxRows = n }

// Tracked returns the number of inputs and of places that are remembered.
func (d *Derived[In, Out]) Tracked() (inputs, places int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.claims.inputs), len(d.claims.places)
}
