// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package running has the functions with which an adapter asks the loop about its running operation,
// or reports something about it. Programs do not need them.
//
// Except for [Follow], the functions are for operations on a single object. They take the context of the call, and work
// until the call returns; elsewhere they do nothing. The package has no state: the context has an
// [Operation], which package execute implements.
package running

import "context"

// Key is the key of the [Operation] in the context of a call.
type Key struct{}

// Operation is a running operation. Its methods are safe from any goroutine.
type Operation[Obj any] interface {
	// Row returns the row whose clone was passed to the operation; false in a call for several
	// objects.
	Row() (row Obj, ok bool)
	// Deletion and Changed implement the functions of these names.
	Deletion()
	Changed()
}

// Row returns the row whose clone was passed to the operation: the version that the operation got, or that
// the last checkpoint wrote. ok is false outside an operation on a single object of type Obj.
func Row[Obj any](ctx context.Context) (row Obj, ok bool) {
	if o, is := ctx.Value(Key{}).(Operation[Obj]); is {
		return o.Row()
	}
	return row, false
}

// Deletion tells the loop that the running update deletes its object from the target: some adapters
// keep a row until what it stands for is gone. The loop then treats the update like a Delete: it is
// never given up, a failure is never final, and a requeue means that the deletion is not finished.
func Deletion(ctx context.Context) {
	if o, is := ctx.Value(Key{}).(marker); is {
		o.Deletion()
	}
}

// Changed tells the loop that the adapter changed the clone of the update. The clone is then written
// with the outcome even if the status is not news. The loop itself does not compare clones.
func Changed(ctx context.Context) {
	if o, is := ctx.Value(Key{}).(marker); is {
		o.Changed()
	}
}

// marker is an [Operation] of any type of object.
type marker interface {
	Deletion()
	Changed()
}

// followKey is the key of [Follow].
type followKey struct{}

// Follow returns a context for Loop.Reapply with which a row that the loop has not read is compared with
// the first listing as any other: the caller applies objects because of a change that Config.Equal sees, too.
func Follow(ctx context.Context) context.Context { return context.WithValue(ctx, followKey{}, true) }

// Follows reports whether a context is one of [Follow].
func Follows(ctx context.Context) bool { return ctx.Value(followKey{}) != nil }
