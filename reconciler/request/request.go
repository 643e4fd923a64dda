// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/reconciler"
)

// NamespacedName is the name of an object and its namespace. Either may be empty.
type NamespacedName struct {
	Namespace, Name string
}

// String returns the namespace, a slash and the name.
func (n NamespacedName) String() string { return n.Namespace + "/" + n.Name }

// Request is the ready-made request type: a namespace and a name that identify one object. Any
// other comparable type can be a request as well: see [Config].KeyOf.
type Request struct {
	NamespacedName
}

// Reconciler makes the world match what the tables say about an object. Req identifies an object:
// [Request], a string, or any other comparable type with a [Config].KeyOf.
type Reconciler[Req comparable] interface {
	// Reconcile performs a full reconciliation of the object that the request names. It is not told
	// what happened. It reads what is wanted and what exists, and acts on the difference. An object
	// that it does not find is gone.
	//
	// It is called for every existing object that the predicates accept at the start, once the tables of all
	// sources are initialised (see [Config].BeforeInitialized). It is called again when a source reports a
	// change for the request, when the last call asked for it, and at a refresh (see
	// [reconciler.WithRefreshing]). So it must be idempotent. There is never more than one call at
	// a time for one request. If [reconciler.Settings].Concurrency is above one, calls for
	// different requests run concurrently.
	//
	// If the error is not nil, the result is ignored and the request is retried with backoff.
	// [reconciler.TerminalError], [reconciler.RetryAfter] and [reconciler.Blocked] have the same
	// meaning as for an operation of the loop. A terminal error is logged and counted. The row of
	// the request is then deleted, unless the table of [For] has the object. If the error is nil,
	// the result says whether the request runs again. A panic is treated as an error.
	//
	// Read the tables in a transaction that is opened within the call: it includes every change
	// that led to the request. [Logger] returns a logger that names the request.
	Reconcile(ctx context.Context, req Req) (Result, error)
}

// Func is a function that implements [Reconciler].
type Func[Req comparable] func(ctx context.Context, req Req) (Result, error)

// Reconcile calls the function.
func (f Func[Req]) Reconcile(ctx context.Context, req Req) (Result, error) { return f(ctx, req) }

// Result says whether a request that did not fail runs again. The zero Result means: not until
// something changes, or until the RequeueAfter of an earlier call. It has no priority: the loop
// decides the order.
type Result struct {
	// Requeue runs the request again, as [reconciler.RequeueBackoff] does: the delay grows
	// exponentially while calls keep asking for it. It is not counted as a failure.
	Requeue bool
	// RequeueAfter, if positive, runs the request again after this time, and Requeue is ignored.
	// Zero and negative values have no effect. It holds until a call begins at its time or later: a call in
	// between, because of an event or a refresh, does not cancel it. Of several such times the earliest is
	// kept. After a failure, Blocked or Requeue the request runs at its retry, release or backoff, even if that
	// is later; after a terminal error at the next change. A clean-up that asks for nothing ends it.
	RequeueAfter time.Duration
}

// outcome converts the return values of Reconcile into an outcome of the loop. An error takes
// precedence over the result, and RequeueAfter over Requeue.
func outcome(res Result, err error) error {
	switch {
	case err != nil:
		return err
	case res.RequeueAfter > 0:
		return reconciler.Requeue(res.RequeueAfter)
	case res.Requeue:
		return reconciler.RequeueBackoff()
	}
	return nil
}
