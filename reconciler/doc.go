// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package reconciler makes a target (a kernel, a proxy, a cloud API, a file tree) match the rows of a
// statedb table, and keeps it that way for as long as the program runs.
//
// A program writes the desired state into the table. A reconciler reads the changes, calls the
// program's operations to update the target, and retries what failed:
//
//	// routeOps implements Operations[*Route]. Delete and Prune are not shown.
//	type routeOps struct{ kernel *Kernel }
//
//	func (o routeOps) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *Route) error {
//		return o.kernel.ReplaceRoute(ctx, r.Dst, r.Gateway)
//	}
//
//	loop, err := reconciler.RegisterConfig(params, reconciler.Config[*Route]{
//		Table:      routes,
//		Operations: routeOps{kernel},
//	})
//
// To request an object, insert a row. To remove the object, delete the row:
//
//	txn := db.WriteTxn(routes)
//	routes.Insert(txn, &Route{Dst: dst, Gateway: gw})
//	revision := routes.Revision(txn.Commit())
//
//	unapplied, err := loop.Wait(ctx, revision, reconciler.Applied)
//
// Operations get the current desired state, never the change that led to it. They have to be
// idempotent: see [ObjectOperations]. The table is only read: [Loop.Status] returns the outcome for a row, and
// [Loop.Outcomes] the table of what is not Done. With [Config].Clone, SetStatus and GetStatus the outcomes are in
// the rows instead, which the program sets to Pending with every change: docs/ledgers.md compares the two.
//
// With [Config].Lister the reconciler also compares what the target has with the table, as [Loop.Verify] does for single
// objects: docs/pruning.md has more.
//
// # Outcomes
//
// The error that an operation returns decides what happens next:
//
//   - nil: the object is Done until it changes or is refreshed.
//   - An error: the object has the status Error, and is retried with exponential backoff.
//   - [RetryAfter]: the same, but the retry comes after a given time.
//   - [TerminalError]: the object has the status Error, and is not retried until it changes.
//   - [Blocked]: the object is Blocked until a watch channel closes. [Need] makes this outcome from a
//     look-up of another object, [NeedApplied] until another object is in the target, and [NeedDeleted] until others
//     are gone from it.
//   - [Requeue] and [RequeueBackoff]: the object is Done, and the operation runs again later.
//
// # Constructors
//
//   - [RegisterConfig] makes a reconciler in a hive, and returns its [Loop].
//   - [New] makes one without a hive; the program calls [Loop.Run].
//   - [Register] is for programs written against github.com/cilium/statedb/reconciler. This package
//     exports everything that v0.9.4 of that package exports, under the same names.
//
// # Packages
//
//   - trigger applies objects again when rows of another table change.
//   - source fills tables from a store or a file; source/etcd and source/kubernetes, modules of their own, from etcd and
//     from an API server. derive keeps a table equal to a function of another one.
//   - request, stepper, stateful and managed are adapters: they run requests of controllers, walks
//     over states, differences to the state applied last, and managed resources on the same loop.
//     object has the metadata of their rows.
//   - event records events of objects for people to read.
//   - commands and debug show and control reconcilers, in a shell and on a web page; inspect has the
//     data that they show.
//   - reconcilertest runs reconcilers in tests, in virtual time, and finds bugs in operations; edge
//     marks their steps for that.
//   - ours writes down what the program has made, for targets without marks.
//
// docs/GUIDE.md goes through all of this with a program that runs.
package reconciler
