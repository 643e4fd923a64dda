// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package request runs controllers on the loop of package reconciler. A request names an object. A [Reconciler] is called
// with a request, reads the tables, and makes the world match what they say about that object.
//
// Reconciliation is level-based: a request never says what happened. Reconcile finds in the tables what is wanted now, or
// that the object is gone. So several events may become one request, and a request may come without an event.
//
// Requests come from [Source]s: the table of the objects themselves ([For]), tables of rows that the objects own ([Owns]),
// and other tables that affect them ([Watches]). [Controller.Add] is for events outside of any table. [New] makes a
// controller, [Controller.Run] runs it; in a hive [Register] does both.
//
// Each request is a [Row] of the controller's own table, and a [reconciler.Loop] reconciles these rows. It writes outcomes
// beside the table. The key in Explain, Retry and PauseOnly is the text of a request, such as "shop/web".
//
// Coming from controller-runtime? An object is a row of a table, the client is the database, and no cache is needed.
// docs/COMPATIBILITY.md compares the names. The rest:
//
//	there                              here
//	GenerationChangedPredicate         ChangesOf(part)
//	owner references                   you return the owner of a row
//	MaxConcurrentReconciles            Settings.Concurrency, in Config.Options
//	the rate limiter of the queue      reconciler.WithRetry, Settings.Jitter, Settings.OperationLimiter
//	polling for a missing object       reconciler.Need in the transaction that you read in, or
//	                                   reconciler.Blocked("no volume", watch)
//	leader election, webhooks,         none: they belong to the program
//	a metrics server
//
// # Running a request
//
//   - Changes that arrive while a request is reconciled become one more run.
//   - Until the tables of all sources are initialised, requests are Blocked, and Explain names the table and its
//     initializers: see [Config].BeforeInitialized.
//   - A RequeueAfter holds, whatever a call before its time returns: see [Result].
//   - For each object of [For] there is a request, but Reconcile is not called before predicates accept a change of the
//     object, or another source or [Controller.Add] asks. Its first refresh comes within two intervals.
//   - A request without an object in the table of [For] is a clean-up, which is never given up. While it is requeued its
//     status is Blocked, "still deleting". Its row is deleted when Reconcile succeeds without asking for another run, or
//     returns a [reconciler.TerminalError].
//   - Without [For] the controller does not know which objects exist. Rows are deleted in the same way, but requests can be
//     given up, and then their rows stay. The time of a RequeueAfter keeps a row until then.
package request
