// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package request runs controllers on the loop of package reconciler. A request names an object and
// nothing else. A [Reconciler] is called with a request, reads the tables, and makes the world match
// what they say about that object.
//
// Reconciliation is level-based: a request never says what happened. Reconcile finds in the tables
// what is wanted now, or that the object is gone. So several events may become one request, and a
// request may come without an event.
//
// Requests come from [Source]s: the table of the objects themselves ([For]), tables of rows that the
// objects own ([Owns]), and other tables that affect them ([Watches]). Each source takes predicates
// that drop changes which do not matter. [Controller.Add] is for events outside of any table.
//
// Each request is a row of the controller's own table, "requests" or "requests-NAME". A
// [reconciler.Loop] reconciles these rows. So retries, fairness, workers, breakers, pauses, Explain,
// metrics and the journal are those of the loop, and its options apply. [New] makes a controller,
// [Controller.Run] runs it. In a hive, call [Register] instead.
//
// The loop writes outcomes beside the table, in "NAME-outcomes" ("requests-outcomes" without a name): a
// row, with the error or the reason, for each request that is not Done. A row of a request only shows
// whether its object exists. [reconciler.Loop.Status] returns the status of a request.
//
// # Coming from controller-runtime
//
// Nothing of Kubernetes is linked. An object is a row of a table, the client is the database, and no
// cache is needed.
//
//	there                                        here
//	-----                                        ----
//	ctrl.NewControllerManagedBy(mgr).For(&App{}) For(apps, requestOf), a source
//	.Owns(&Pod{}), by owner references           Owns(pods, ownerOf): you return the owner of a row
//	.Watches(&Node{},                            Watches(nodes, requestsOf)
//	  handler.EnqueueRequestsFromMapFunc(f))
//	predicates                                   predicates of a source
//	GenerationChangedPredicate                   ChangesOf(part)
//	a channel source, a webhook                  Controller.Add
//	log.FromContext(ctx)                         Logger(ctx)
//	waiting for the caches                       requests wait until the tables of all sources
//	                                             are initialised; Config.BeforeInitialized
//	mgr.GetClient().Get, the cache               table.Get(db.ReadTxn(), ...)
//	Result{Requeue: true}, {RequeueAfter: d}     the same; an event does not use up a RequeueAfter, as there
//	                                             without the priority queue
//	reconcile.TerminalError(err)                 reconciler.TerminalError(err)
//	MaxConcurrentReconciles                      Settings.Concurrency, in Config.Options
//	the rate limiter of the queue                reconciler.WithRetry, Settings.Jitter,
//	                                             Settings.OperationLimiter
//	priorities of the queue                      none: the loop schedules by the kind of a change
//	polling for a missing object                 reconciler.Need in the transaction that you read
//	                                             in, or reconciler.Blocked("no volume", watch)
//	leader election, webhooks, metrics server    none: they belong to the program
//
// # Running a request
//
//   - A request is never reconciled twice at a time. Changes that arrive while it is reconciled become
//     one more run afterwards.
//   - Until the tables of all sources are initialised, requests are Blocked, and Explain names the table
//     and its initializers. A reconciler that creates what is missing would otherwise create everything
//     again at each start. [Config].BeforeInitialized turns the wait off.
//   - A RequeueAfter holds until a call begins at its time or later. A call in between, because of an event or
//     a refresh, does not cancel it. Of several such times only the earliest is kept. After a failure, Blocked
//     or Requeue the request runs at its retry, release or backoff, even if that is later; after a terminal
//     error at the next change. A clean-up that asks for nothing ends the request, and its time with it.
//   - Each object of [For] has a row. Until predicates accept a change of the object, or another source or
//     [Controller.Add] asks, Reconcile is not called for it.
//   - A reconciler that writes into its own objects triggers itself. Use [ChangesOf] to ignore such
//     writes.
//   - [reconciler.Loop.Explain], Retry and PauseOnly of [Controller.Loop] take the text of a request as
//     the key, such as "shop/web" for [Request].
//   - Objects of [For] are refreshed every 30 minutes, at most 100 a second, against drift: see
//     [reconciler.WithRefreshing]. The first refresh of an object comes within two intervals.
//
// # Deleted objects
//
// A request is a clean-up if the table of [For] does not have its object:
//
//   - It is never given up, whatever [reconciler.Settings].MaxRetries is.
//   - While it is requeued its status is Blocked, "still deleting".
//   - Its row is deleted when Reconcile succeeds without asking for another run, or when it returns a
//     [reconciler.TerminalError]. The error is logged and counted.
//
// Without [For] the controller does not know which objects exist. Rows are then deleted in the same way
// for all requests. But requests are not clean-ups: they can be given up, and then their rows stay. The
// time of a RequeueAfter keeps a row until then.
package request
