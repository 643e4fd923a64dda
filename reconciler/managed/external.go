// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"errors"
)

// ExternalClient manages the external resources of rows. Calls should be short, and must be
// idempotent: deleting a resource that is gone or being deleted is no error, and neither is creating
// one that was created with the same name.
//
// The object is a clone, made by [reconciler.Config].Clone. What Clone does not copy must be copied
// before it is changed. The context ends at the timeout of [WithTimeout], and when the reconciler
// stops. The error of a call may decide what comes next, as in [reconciler.ObjectOperations]: return
// [reconciler.RetryAfter] for a server's Retry-After. An ordinary error is retried with backoff. With
// [reconciler.Settings].Concurrency several goroutines call at the same time, but never two for one
// object.
//
// If a client also implements [ExternalDisconnecter], it is disconnected at the end of the pass that
// it was made for.
type ExternalClient[T any] interface {
	// Observe reads the state of the external resource. It must not change the resource. It may set on
	// the object what it reads: the other calls of the pass receive that object, and changes are
	// written into the table. For an object whose policies lack [ManagementActionLateInitialize], and
	// allow more than to observe, only conditions, annotations and what [WithObserved] copies are
	// written. Observe may set the condition [TypeReady], for example to [Available]. If it sets none,
	// a resource that exists is Available.
	Observe(ctx context.Context, obj T) (ExternalObservation, error)

	// Create creates the external resource. It is called when Observe did not find the resource, and
	// never after the context has ended. Annotations that it sets or removes are written at once, and
	// are kept when the row is changed or replaced. The most important one is the external name: see
	// [SetExternalName]. Everything else that Create sets is dropped. An error means that nothing was
	// created, unless it is [ErrCreateUnsure] or the context has ended.
	Create(ctx context.Context, obj T) error

	// Update makes the external resource match the object. It is called when Observe returned that it
	// is not up to date.
	Update(ctx context.Context, obj T) error

	// Delete deletes the external resource, or starts its deletion. It is called when the object is
	// being deleted and Observe found the resource, and again in later passes until Observe does not
	// find it.
	Delete(ctx context.Context, obj T) error
}

// ErrCreateUnsure is returned by a client's Create when it cannot tell whether the resource was
// created, for example because the connection broke before the answer. The object then stops and waits
// for a person, as after a crash, unless external names are deterministic (see
// [WithDeterministicExternalName]).
var ErrCreateUnsure = errors.New("the external resource may or may not have been created")

// ExternalObservation is the observed state of an external resource.
type ExternalObservation struct {
	// ResourceExists reports whether the resource exists. If not, only ConnectionDetails count.
	ResourceExists bool
	// ResourceUpToDate reports whether the resource matches the object, so that no update is needed.
	ResourceUpToDate bool
	// ResourceLateInitialized reports whether Observe has filled in fields that the object left open.
	// The row is then written before the next step. Set it only when Observe has filled in something
	// new.
	ResourceLateInitialized bool
	// Diff describes for people how the resource differs from the object. It is written to the log and
	// to the note of the pass. Optional.
	Diff string
	// ConnectionDetails are passed to the publishers of [WithConnectionPublishers]; nil publishes
	// nothing. They may be returned once: a later pass publishes what could not be published.
	ConnectionDetails ConnectionDetails
}

// ExternalClientFns is an [ExternalClient] made of functions. If ObserveFn is nil, Observe returns what
// [NopClient] does. Other functions that are nil do nothing.
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

// call calls fn, and does nothing if fn is nil.
func call[T any](ctx context.Context, obj T, fn func(context.Context, T) error) error {
	if fn == nil {
		return nil
	}
	return fn(ctx, obj)
}

// ExternalConnecter makes the client for an object, for example with the credentials that the object
// names. It is called once per pass, for deletions too (see [WasDeleted]). The context is the one of the [ExternalClient]
// calls. It can look up other rows in the transaction that [Txn] returns; with the error of [reconciler.Need] the object
// is Blocked until the row is there.
type ExternalConnecter[T any] interface {
	// Connect returns a client, or an error. Without an error the client must not be nil.
	Connect(ctx context.Context, obj T) (ExternalClient[T], error)
}

// ExternalDisconnecter releases what a connecter has opened.
type ExternalDisconnecter interface {
	// Disconnect is called at the end of each pass that has connected, successful or not. Its context
	// ends ten seconds after the pass begins to disconnect, even if that of the pass has ended before.
	// An error or a panic is recorded as an event, and does not change the outcome of the pass. With
	// [reconciler.Settings].Concurrency the Disconnect of a connecter is called while other passes
	// run: let the client release what belongs to one pass.
	Disconnect(ctx context.Context) error
}

// ExternalConnectDisconnecter makes clients, and is called at the end of each pass.
type ExternalConnectDisconnecter[T any] interface {
	ExternalConnecter[T]
	ExternalDisconnecter
}

// ExternalConnectorFn is a function that implements [ExternalConnecter].
type ExternalConnectorFn[T any] func(ctx context.Context, obj T) (ExternalClient[T], error)

// Connect calls the function.
func (fn ExternalConnectorFn[T]) Connect(ctx context.Context, obj T) (ExternalClient[T], error) {
	return fn(ctx, obj)
}

// ExternalDisconnectorFn is a function that implements [ExternalDisconnecter].
type ExternalDisconnectorFn func(ctx context.Context) error

// Disconnect calls the function.
func (fn ExternalDisconnectorFn) Disconnect(ctx context.Context) error { return fn(ctx) }

// ExternalConnectDisconnecterFns is an [ExternalConnectDisconnecter] made of functions. If ConnectFn is
// nil, Connect returns a [NopClient]. If DisconnectFn is nil, Disconnect does nothing.
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
