// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package managed reconciles rows that stand for resources of an outside system, such as the machines of a cloud. Such
// systems are slow, fail half way, show their own changes late, and charge for forgotten resources. The program observes,
// creates, updates and deletes one resource; the reconciler never creates one twice and never forgets one.
//
//  1. Embed [Meta] in the row type.
//  2. Implement [ExternalClient], and pass a connecter for it to [WithExternalConnecter].
//  3. Pass the result of [Configure] to [reconciler.New] or, in a hive, to [reconciler.RegisterConfig].
//  4. Write the rows with a [Writer], and wait for them with [WaitReady].
//
// The example of the package is a whole program. docs/COMPATIBILITY.md compares the names with those of crossplane-runtime,
// docs/OPERATIONS.md has the conditions, and what a person does.
//
// # A pass
//
// A pass is one operation of the loop on one object. It acts at most once on the resource:
//
//  1. It puts back notes of earlier passes that the row lacks. If the object is paused, the pass ends.
//  2. It calls the initializers. A row without an external name waits until what a resync has begun to delete under its key
//     is gone. A deletion whose policies keep the resource removes the row.
//  3. If an earlier create may or may not have happened, since the program crashed or the connection broke, the object
//     stops until a person decides: see [DecideCreate], for which the program needs a command, as in the example ByHand.
//     None stops with [WithDeterministicExternalName].
//  4. A deletion waits for the finalizers of others.
//  5. It calls the connecter, and then Observe.
//  6. A resource that is not found may be invisible still, and is waited for: see [WithCreationGracePeriod].
//  7. A deletion calls Delete while the resource exists, in passes that follow soon, with backoff. Then it removes the
//     finalizer, and the row if that has no other.
//  8. If the resource is missing, it writes the finalizer and the note external-create-pending into the table, calls
//     Create, and writes the result before anything else. The next pass comes soon, with backoff.
//  9. It writes what Observe has filled in, and calls Update if the resource is not up to date. The next pass comes after
//     the poll interval.
//
// A failed step is a condition and an event, and is retried as its error says. The steps are the note of the operation in
// Explain and the journal. A poll that finds no change writes nothing, unless Clone copies maps, slices or pointers and the
// row has a function or a NaN: rows are compared by [reflect.DeepEqual].
//
// # Deletions and restarts
//
// A deletion is never given up, except that of a paused object, which is refused. Until the resource is gone the row is
// Blocked, "still deleting", which is no failure.
//
// If a program removes a row from the table itself, the resource that the process remembers is deleted, too: see
// [Reconciler.Delete].
//
// After a restart tables are empty. Observe finds the resources again if their names are in the source of the rows, or
// follow from it; otherwise see [CriticalAnnotationUpdater]. Other annotations that only Create has set are lost, unless
// Observe sets them again.
//
// The first resync of a [reconciler.Lister] deletes every listed resource without a row, even that of an object that was
// taken out while no process ran, whatever its policy was (see [WithLeaveHook]). So write the rows before Run, or register
// an initializer of the table for each source, and set [reconciler.WithOrphanBudget].
//
// # Rows and annotations
//
// [Writer] says what a pass does whose row is written meanwhile, [Reconciler.Merge] what other reconcilers of the row need.
// By the annotations of [AnnotationPrefix] a person asks for a pass, pauses an object, and sets its poll interval, policies
// and external name.
package managed
