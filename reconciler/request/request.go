// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/reconciler"
)

// NamespacedName is the name of an object and that of what it is in. Either may be empty.
type NamespacedName struct {
	Namespace, Name string
}

// String returns the namespace, a slash and the name.
func (n NamespacedName) String() string { return n.Namespace + "/" + n.Name }

// Request is the ready-made request: it identifies an object uniquely by its namespace and
// name, and has nothing of any event, nor of what the object contains. Any other comparable
// type can be a request as well.
type Request struct {
	NamespacedName
}

// Reconciler makes the world match what the tables say of an object. Req is what identifies
// one: [Request], a string, or any other comparable type (see [Config].KeyOf).
type Reconciler[Req comparable] interface {
	// Reconcile performs a full reconciliation of the object that the request names. It
	// is not told what happened, and should not care: it reads what is wanted and what
	// there is, and acts on the difference. An object that it does not find is gone.
	// It is called at the start for every object that there is, not before the tables of all
	// sources are initialised (see [Config]); again whenever a source has a change for it, or
	// what it came back with says so; and now and then at a refresh (see
	// [reconciler.WithRefreshing]). So it has to be idempotent. It is never called twice at a
	// time for one request; with [reconciler.Settings].Concurrency it is for several requests, from
	// several goroutines.
	//
	// If the error is not nil, the request is tried again, with backoff, and the result
	// does not count. [reconciler.TerminalError], [reconciler.RetryAfter] and
	// [reconciler.Blocked] mean what they do for the loop. A terminal error is logged and
	// counted, also one of a clean-up, and then forgotten: the row of the request goes, unless
	// the table of [For] has the object. Otherwise the result says whether it is run again. A
	// panic is an error.
	//
	// Read the tables in a transaction that is opened within the call: it has all that
	// led to the request. [Logger] returns a logger that names the request.
	Reconcile(ctx context.Context, req Req) (Result, error)
}

// Func is a function that is a [Reconciler].
type Func[Req comparable] func(ctx context.Context, req Req) (Result, error)

// Reconcile calls the function.
func (f Func[Req]) Reconcile(ctx context.Context, req Req) (Result, error) { return f(ctx, req) }

// Result says what comes after a reconciliation that did not fail. The zero Result is that
// there is nothing to come until something changes. It has no priority: a change goes before
// what waited and a backlog as in any loop.
type Result struct {
	// Requeue runs the request again, with exponential backoff while it goes on saying
	// so: it is [reconciler.RequeueBackoff]. It is no error.
	Requeue bool
	// RequeueAfter, if it is above zero, runs the request again after that time, and
	// Requeue does not count. Zero and below say nothing.
	RequeueAfter time.Duration
}

// outcome returns what a reconciliation means for the loop: an error wins over a result, and
// a time over a backoff.
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
