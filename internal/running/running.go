// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package running has what an adapter may ask the loop about the operation that it is called
// for, or tell it, and programs have no need of. All of it is for operations on a single object,
// with the context of the call and before that returns; elsewhere it does nothing.
package running

import "context"

// Key is the key in the context of an operation under which there is its [Operation].
type Key struct{}

// Operation is one that is running.
type Operation[Obj any] interface {
	// Row returns the row of which the operation was handed a clone; false in a call for
	// several objects.
	Row() (row Obj, ok bool)
	// Deletion and Changed are what the functions of these names tell the loop.
	Deletion()
	Changed()
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

// Deletion tells the loop that the update which is running deletes its object, as where a row
// stays until what it stands for is gone. It is then treated as a Delete is: it is never given
// up, a failure is never final, and what asks to be run again is still being deleted.
func Deletion(ctx context.Context) {
	if o, is := ctx.Value(Key{}).(marker); is {
		o.Deletion()
	}
}

// Changed tells the loop that the adapter changed the clone that the update was handed, so that
// it is written with the outcome also if the status says nothing new. The loop itself does not
// compare clones.
func Changed(ctx context.Context) {
	if o, is := ctx.Value(Key{}).(marker); is {
		o.Changed()
	}
}

// marker is an [Operation], whatever its objects are.
type marker interface {
	Deletion()
	Changed()
}
