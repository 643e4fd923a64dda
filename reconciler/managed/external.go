// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"errors"
)

// ExternalClient manages the external resources of the rows it is handed. The calls should be
// short, and must be idempotent: to delete what is gone, or is going, is no error, and to create
// what was created with the same name is none.
//
// The object is a clone, as deep as [reconciler.Config].Clone makes it: what lies deeper must be
// copied before it is changed. The context ends at the timeout of [WithTimeout], and when the
// reconciler stops. The error of a call may say what comes next, as that of
// [reconciler.Operations] may: a server's Retry-After is for [reconciler.RetryAfter]. Any other
// is retried with backoff. The calls come from several goroutines at once with
// [reconciler.Settings].Concurrency, but never two of them for one object.
//
// A client that is an [ExternalDisconnecter], too, is disconnected at the end of the pass that
// it was made for.
type ExternalClient[T any] interface {
	// Observe looks at the external resource, if there is one, and changes nothing of it. It
	// may set on the object what it sees there: the other calls of the pass are handed that
	// object, and what is news is written. Of an object whose policies lack
	// [ManagementActionLateInitialize] conditions and annotations are written, and what
	// [WithObserved] says. Of the conditions it may set [TypeReady], such as [Available]; if it
	// sets none, a resource that exists is Available.
	Observe(ctx context.Context, obj T) (ExternalObservation, error)

	// Create creates the external resource. It is called when Observe says that there is
	// none, and not once the context has ended. Annotations that it sets or removes are written
	// at once, such as with [SetExternalName] how the outside system calls what was created, and
	// are kept when the row is changed or replaced; everything else that it sets is dropped. An
	// error means that nothing was created, unless it is [ErrCreateUnsure] or the context has
	// ended.
	Create(ctx context.Context, obj T) error

	// Update makes the external resource what the object wants. It is called when Observe
	// says that it differs.
	Update(ctx context.Context, obj T) error

	// Delete deletes the external resource, or begins to. It is called when the object is to
	// go and Observe says that the resource exists, and again until Observe says that it does
	// not.
	Delete(ctx context.Context, obj T) error
}

// ErrCreateUnsure is for the error of a create of which nobody can tell whether it happened, as
// when the connection broke before the answer. The object then stops and waits for a person, as
// after a crash, unless names are deterministic (see [WithDeterministicExternalName]).
var ErrCreateUnsure = errors.New("the external resource may or may not have been created")

// ExternalObservation is what was seen of an external resource.
type ExternalObservation struct {
	// ResourceExists: there is a resource of the name. Without it the rest means nothing.
	ResourceExists bool
	// ResourceUpToDate: an update would change nothing.
	ResourceUpToDate bool
	// ResourceLateInitialized: Observe has filled in on the object what it left open. The
	// row is written before anything else is done. It should not be said every time.
	ResourceLateInitialized bool
	// Diff says for people how what exists differs from what is wanted. It goes to the log
	// and into the note of the pass. Optional.
	Diff string
	// ConnectionDetails are handed to the publishers of [WithConnectionPublishers]. nil means
	// that there is nothing to publish.
	ConnectionDetails ConnectionDetails
}

// ExternalClientFns makes an [ExternalClient] of functions. A nil ObserveFn sees a resource that
// exists and is up to date, as [NopClient] does; the others, if nil, do nothing.
type ExternalClientFns[T any] struct {
	ObserveFn func(ctx context.Context, obj T) (ExternalObservation, error)
	CreateFn  func(ctx context.Context, obj T) error
	UpdateFn  func(ctx context.Context, obj T) error
	DeleteFn  func(ctx context.Context, obj T) error
}

// Observe calls ObserveFn.
func (e ExternalClientFns[T]) Observe(ctx context.Context, obj T) (ExternalObservation, error) {
	if e.ObserveFn == nil {
		return (&NopClient[T]{}).Observe(ctx, obj)
	}
	return e.ObserveFn(ctx, obj)
}

// Create calls CreateFn.
func (e ExternalClientFns[T]) Create(ctx context.Context, obj T) error {
	return call(ctx, obj, e.CreateFn)
}

// Update calls UpdateFn.
func (e ExternalClientFns[T]) Update(ctx context.Context, obj T) error {
	return call(ctx, obj, e.UpdateFn)
}

// Delete calls DeleteFn.
func (e ExternalClientFns[T]) Delete(ctx context.Context, obj T) error {
	return call(ctx, obj, e.DeleteFn)
}

// call calls a function that may be nil, which does nothing.
func call[T any](ctx context.Context, obj T, fn func(context.Context, T) error) error {
	if fn == nil {
		return nil
	}
	return fn(ctx, obj)
}

// ExternalConnecter makes a client for an object, such as one with the credentials that the
// object names. It is called once a pass. The context is that of [ExternalClient]'s calls; rows
// that it needs can be looked up in the transaction of [Txn].
type ExternalConnecter[T any] interface {
	// Connect returns a client, never nil without an error.
	Connect(ctx context.Context, obj T) (ExternalClient[T], error)
}

// ExternalDisconnecter ends what a connecter began.
type ExternalDisconnecter interface {
	// Disconnect is called at the end of each pass that has connected, whatever became of
	// it. Its context does not end with the pass's, but ten seconds later. A failure is recorded
	// as an event, and changes nothing of the outcome. A connecter's is called while other
	// passes run, with [reconciler.Settings].Concurrency: what belongs to one pass is better ended
	// by its client.
	Disconnect(ctx context.Context) error
}

// ExternalConnectDisconnecter makes clients, and is told when a pass is over.
type ExternalConnectDisconnecter[T any] interface {
	ExternalConnecter[T]
	ExternalDisconnecter
}

// ExternalConnecterFn makes an [ExternalConnecter] of a function.
type ExternalConnecterFn[T any] func(ctx context.Context, obj T) (ExternalClient[T], error)

// Connect calls the function.
func (fn ExternalConnecterFn[T]) Connect(ctx context.Context, obj T) (ExternalClient[T], error) {
	return fn(ctx, obj)
}

// ExternalDisconnecterFn makes an [ExternalDisconnecter] of a function.
type ExternalDisconnecterFn func(ctx context.Context) error

// Disconnect calls the function.
func (fn ExternalDisconnecterFn) Disconnect(ctx context.Context) error { return fn(ctx) }

// ExternalConnectDisconnecterFns makes an [ExternalConnectDisconnecter] of functions. A nil
// ConnectFn returns a [NopClient], a nil DisconnectFn does nothing.
type ExternalConnectDisconnecterFns[T any] struct {
	ConnectFn    func(ctx context.Context, obj T) (ExternalClient[T], error)
	DisconnectFn func(ctx context.Context) error
}

// Connect calls ConnectFn.
func (fns ExternalConnectDisconnecterFns[T]) Connect(ctx context.Context, obj T) (ExternalClient[T], error) {
	if fns.ConnectFn == nil {
		return &NopClient[T]{}, nil
	}
	return fns.ConnectFn(ctx, obj)
}

// Disconnect calls DisconnectFn.
func (fns ExternalConnectDisconnecterFns[T]) Disconnect(ctx context.Context) error {
	if fns.DisconnectFn == nil {
		return nil
	}
	return fns.DisconnectFn(ctx)
}
