// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package running has what an adapter may ask the loop about the operation that it is called
// for, and programs have no need of.
package running

import "context"

// Key is the key in the context of an operation under which there is its [Operation].
type Key struct{}

// Operation is one that is running.
type Operation[Obj any] interface {
	// Row returns the row of which the operation was handed a clone; false in a call for
	// several objects.
	Row() (row Obj, ok bool)
}

// Row returns the row of which an operation with the context was handed a clone: as it was
// planned, or as the last checkpoint wrote it. It is false outside of an operation for a single
// object of a table of such rows.
func Row[Obj any](ctx context.Context) (row Obj, ok bool) {
	if o, is := ctx.Value(Key{}).(Operation[Obj]); is {
		return o.Row()
	}
	return row, false
}
