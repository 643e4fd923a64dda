// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package managed reconciles rows that stand for resources of an outside system, such as the
// machines of a cloud or the tunnels of a broker: slow, failing half way, telling of their own
// changes late, and costing money when they are forgotten.
//
// A program embeds [Meta] in its rows and implements [ExternalClient]: observe, create, update
// and delete. [Configure] returns a configuration with it, of which [reconciler.New] and
// [reconciler.RegisterConfig] make a loop. Each update
// is one pass of the lifecycle: the outside system is observed, one thing is done about the
// difference, and the pass ends in an outcome: again soon, again after the poll interval, or a
// failure with its backoff.
//
// # Nothing is leaked
//
// What the next pass must know is in the table before the step that it guards: the finalizer
// and [AnnotationCreatePending] before the create, the external name and
// [AnnotationCreateSucceeded] right after it. Where a resource may have been created and nobody
// can tell, the object stops with a condition that says so, until a person decides with
// [DecideCreate]. Where names are known before the create, observing can tell: see
// [WithDeterministicExternalName].
//
// A program asks for a deletion with [Writer.Delete], and writes rows with [Writer.Apply], which sets
// and takes back only what the program sets. [WaitReady] waits until a resource can be used. A row
// that is taken out of the table by force is deleted all the same. What was noted on a row is
// remembered for as long as the program runs, with the policies that others have set, so that one
// which is replaced by a row without them has them again with its next pass, or when it is taken out.
//
// The tables of a process that ends are gone. What was created is found again by observing, if
// the name is in what the program reads its rows from or can be told from it; otherwise a
// [CriticalAnnotationUpdater] writes the annotations where they last, and the client's Create does
// so before it creates anything. What nobody wants any more after a restart is for a
// [reconciler.Sweeper], which lists rows that have [FinalizerName], but not what [WithLeaveHook] has
// marked.
//
// # Conditions, events and figures
//
// Two conditions tell a person how an object is: [TypeSynced], which is the reconciler's, and
// [TypeReady], which is the client's (see [ExternalClient]). A poll that finds what the last one
// found writes nothing. Events go to [WithRecorder], figures to [WithMetrics]; the steps of each
// pass are in its note, which [reconciler.Loop.Explain] shows.
package managed
