// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package reconciler makes a target (a kernel, a proxy, a cloud API) match the rows of a statedb
// table, and keeps it so for as long as the program runs.
//
// A program writes what it wants into the table, each row with a [Status] that is Pending. It
// implements [Operations], or the batched kinds of them, which move the target; what an operation
// returns is the outcome, and is written into the row: nil, an error, or one of [RetryAfter],
// [TerminalError], [Blocked], [Requeue] and [RequeueBackoff]. Failures are retried, what is blocked
// wakes when what it waits for changes (see [Need]), and what nobody wants is pruned or swept.
//
// [Register] and [RegisterConfig] make a reconciler in a hive, [New] one without; all but the first
// return a [Loop], which answers why an object is not reconciled ([Loop.Explain]), how the whole
// does ([Loop.Snapshot]), and lets others wait for what they wrote ([Loop.Wait]). It exports
// everything that github.com/cilium/statedb/reconciler v0.8.3 does, under the same names.
//
// The packages below bring other idioms to the same loop: request (controllers), stepper (a walk
// over states), stateful (differences to what was applied last) and managed (resources of an
// outside system). Package event tells people what happened to an object; commands and debug show
// what reconcilers do.
package reconciler
