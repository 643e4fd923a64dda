// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package request runs controllers on the loop of package reconciler. A request names an object and nothing else. A
// [Reconciler] is called with a request, reads the tables, and makes the world match what they say about that object.
//
// Reconciliation is level-based: a request never says what happened. Reconcile finds in the tables what is wanted now, or
// that the object is gone. So several events may become one request, and a request may come without an event.
//
// Requests come from [Source]s: the table of the objects themselves ([For]), tables of rows that the objects own ([Owns]),
// and other tables that affect them ([Watches]). [Controller.Add] is for events outside of any table. [New] makes a
// controller, [Controller.Run] runs it. In a hive, call [Register] instead.
//
// Each request is a row of the controller's own table, "requests" or "requests-NAME", and a [reconciler.Loop] reconciles
// these rows, with all that it has and with its options. It writes outcomes beside the table, in "NAME-outcomes"
// ("requests-outcomes" without a name). A row of a request only shows whether its object exists;
// [reconciler.Loop.Status] returns the status of a request. In Explain, Retry and PauseOnly of [Controller.Loop] the key is
// the text of a request, such as "shop/web" for [Request].
//
// # Coming from controller-runtime
//
// Nothing of Kubernetes is linked. An object is a row of a table, the client is the database, and no cache is needed.
// docs/COMPATIBILITY.md compares the names. The rest:
//
//	there                              here
//	GenerationChangedPredicate         ChangesOf(part)
//	owner references                   you return the owner of a row
//	waiting for the caches             requests wait until the tables of all sources are initialised
//	MaxConcurrentReconciles            Settings.Concurrency, in Config.Options
//	the rate limiter of the queue      reconciler.WithRetry, Settings.Jitter, Settings.OperationLimiter
//	polling for a missing object       reconciler.Need in the transaction that you read in, or
//	                                   reconciler.Blocked("no volume", watch)
//	leader election, webhooks,         none: they belong to the program
//	a metrics server
//
// # Running a request
//
//   - Changes that arrive while a request is reconciled become one more run afterwards.
//   - Until the tables of all sources are initialised, requests are Blocked, and Explain names the table and its
//     initializers: see [Config].BeforeInitialized.
//   - A RequeueAfter holds until a call begins at its time or later. A call in between, because of an event or a refresh,
//     does not cancel it. Of several such times only the earliest is kept. After a failure, Blocked or Requeue the request
//     runs at its retry, release or backoff, even if that is later; after a terminal error at the next change. A clean-up
//     that asks for nothing ends the request, and its time with it.
//   - Each object of [For] has a row. Until predicates accept a change of the object, or another source or
//     [Controller.Add] asks, Reconcile is not called for it.
//   - A reconciler that writes into its own objects triggers itself. [ChangesOf] ignores such writes.
//   - Objects of [For] are refreshed against drift: see [Config].Options. The first refresh of an object comes within two
//     intervals.
//
// # Deleted objects
//
// A request is a clean-up if the table of [For] does not have its object. It is never given up, whatever
// [reconciler.Settings].MaxRetries is. While it is requeued its status is Blocked, "still deleting". Its row is deleted
// when Reconcile succeeds without asking for another run, or returns a [reconciler.TerminalError].
//
// Without [For] the controller does not know which objects exist. Rows are then deleted in the same way for all requests.
// But requests are not clean-ups: they can be given up, and then their rows stay. The time of a RequeueAfter keeps a row
// until then.
package request
