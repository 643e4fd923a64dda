// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package reconciler makes a target (a kernel, a proxy, a cloud API, a file tree) match the rows of a statedb table for as
// long as the program runs. A program writes the desired state into the table. A reconciler reads the changes, calls the
// program's operations to update the target, and retries what failed:
//
//	// routeOps implements ObjectOperations[*Route]. Delete is not shown.
//	type routeOps struct{ kernel *Kernel }
//
//	func (o routeOps) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *Route) error {
//		return o.kernel.ReplaceRoute(ctx, r.Dst, r.Gateway)
//	}
//
//	loop, err := reconciler.New(reconciler.Config[*Route]{DB: db, Table: routes, Operations: routeOps{kernel}})
//	go loop.Run(ctx)
//
//	txn := db.WriteTxn(routes)
//	routes.Insert(txn, &Route{Dst: dst, Gateway: gw}) // or Delete
//	unapplied, err := loop.Wait(ctx, routes.Revision(txn.Commit()), reconciler.Applied)
//
// # What a new program uses
//
// These names are stable: docs/STABILITY.md.
//
//   - [Config] says what is reconciled, by which [ObjectOperations], and how. [Settings] are the options that can change at
//     run time; [WithSettings] sets them. With a [Lister] the reconciler compares the target with the table, too.
//   - [New] makes a [Loop], which [Loop.Run] runs. [RegisterConfig] makes one that a hive runs.
//   - [Loop.Wait], [Loop.WaitAll] and [Loop.WaitFor] return when what was written is [Attempted], or [Applied], and
//     [Loop.Ready] when the loop has taken over its target.
//   - [Loop.Status] returns the outcome for a row, [Loop.StatusWatch] also channels that close when it changes, and
//     [Loop.Explain] why an object is not reconciled. With [WithRegistry] commands and pages find the loop.
//   - [Loop.Reapply] applies rows again, [Loop.Resync] compares all with the target, [Loop.Pause] and [Loop.Resume] stop
//     the operations for a while.
//
// Operations get the current desired state, never the change that led to it, and have to be idempotent. The error that one
// returns decides what happens next:
//
//   - nil: the object is Done until it changes or is refreshed.
//   - An error: the object is retried with exponential backoff; with [RetryAfter] after a given time, with [TerminalError]
//     not before it changes.
//   - [Blocked]: the object waits until a watch channel closes. [Need] waits for a row, [NeedApplied] until another object
//     is in the target, and [NeedDeleted] until others are gone from it; with [ErrNotKnown] if it is not known yet whether
//     they are.
//   - [Requeue], [RequeueBackoff]: the object is Done, and the operation runs again later.
//
// The table is only read, and [Loop.Outcomes] is a table of what is not Done. With [Config].Clone, SetStatus and GetStatus
// the outcomes are in the rows instead: docs/ledgers.md compares the two.
//
// # The rest
//
// The other names of github.com/cilium/statedb/reconciler v0.9.4, such as [Register] and [Operations], never change.
//
// Packages: trigger applies objects again when rows of another table change; source fills tables from elsewhere, derive
// from other tables; request, stepper, stateful and managed are other programming models on this loop; commands, debug and
// inspect show and control reconcilers; reconcilertest finds bugs in operations, and edge marks their steps for it; event
// records what happened to objects; ours notes what the program has made, for targets without marks. docs/GUIDE.md builds a
// program with a dependency and tests; docs/README.md lists the other pages.
package reconciler
