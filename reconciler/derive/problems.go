// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import "github.com/statekeel/statekeel/internal/problems"

// numErrors returns the number of rows of the inputs and of the output that are in error. It is called with
// mu held, as errorOf is.
func (d *Derived[In, Out]) numErrors() int { return d.failed.Len() + d.wrong.Len() + d.joined.Len() }

// errorVersion changes whenever an error does. It is called with mu held.
func (d *Derived[In, Out]) errorVersion() uint64 {
	return d.failed.Version() + d.wrong.Version() + d.joined.Version()
}

// errorOf returns the error of an input row, or of the first output row that it wants and that has one;
// nil if there is none.
func (d *Derived[In, Out]) errorOf(key string) *problems.Problem {
	if p := d.failed.Of(key); p != nil || d.wrong.Len() == 0 {
		return p
	}
	for _, x := range d.claims.Of(key) {
		if p := d.wrong.Of(x.At.Key); p != nil {
			return p
		}
	}
	return nil
}
