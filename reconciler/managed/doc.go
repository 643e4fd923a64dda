// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package managed reconciles rows that stand for resources of an outside system, such as the machines of a cloud or the
// tunnels of a broker. Such systems are slow, fail half way, show their own changes late, and charge for resources that
// were forgotten. The program implements how to observe, create, update and delete one resource; the reconciler never
// creates one twice and never forgets one.
//
//  1. Embed [Meta] in the row type.
//  2. Implement [ExternalClient], and pass a connecter for it to [WithExternalConnecter].
//  3. Pass the result of [Configure] to [reconciler.New] or, in a hive, to [reconciler.RegisterConfig].
//  4. Write the rows with a [Writer], and wait for them with [WaitReady].
//
// The example of the package is a whole program. docs/COMPATIBILITY.md compares each name with those of
// crossplane-runtime, docs/OPERATIONS.md describes what a person sees and does.
//
// # A pass
//
// A pass is one operation of the loop on one object. It observes the resource, acts at most once on the difference, and
// ends in an outcome:
//
//  1. Notes of earlier passes that the row lacks are put back. If the object is paused, the pass ends.
//  2. The initializers are called. A row that still has no external name waits until what a resync has begun to delete
//     under its key is gone. The row of a deletion whose policies keep the resource is removed.
//  3. If an earlier create may or may not have happened, the object waits for a person.
//  4. A deletion waits for the finalizers of others.
//  5. The connecter is called, and then Observe.
//  6. A resource that is not found may be invisible still, and is waited for: see [WithCreationGracePeriod].
//  7. Of a deletion, Delete is called while the resource exists, in passes that follow soon, with backoff. Then the finalizer
//     is removed, and the row if it has no other finalizer.
//  8. If the resource is missing, the finalizer and the note external-create-pending are written into the table, Create is
//     called, and its result is written before anything else is done. The next pass comes soon, with backoff.
//  9. What Observe has filled in is written. If the resource is not up to date, Update is called. The next pass comes after
//     the poll interval.
//
// A failed step is a condition and an event, and is retried as its error says. The steps of a pass are its note in
// [reconciler.Loop.Explain] and in the journal. A poll that finds no change writes nothing, unless the row has a function or
// a NaN, and its Clone copies maps, slices or pointers: rows are compared by [reflect.DeepEqual].
//
// A program can crash between a create and its answer, and a connection can break. Then a resource may exist whose name is
// not known. The object stops with the reason CreateUnsure and an event, until a person has looked in the outside system and
// noted what was found, by [Writer.Edit] with [DecideCreate]. The program needs a command for that, as in the example
// ByHand. No object stops with [WithDeterministicExternalName].
//
// # Conditions
//
//	type    reason              meaning
//	Synced  ReconcileSuccess    the last pass succeeded
//	        ReconcileError      the last pass failed; the message is the error
//	        ReconcilePaused     the object is paused; the message reports a refused deletion
//	        ReconcileWaiting    it waits for another row, or for finalizers of others
//	        CreateUnsure        a person must decide
//	Ready   Available           the resource can be used
//	        Unavailable         the resource cannot be used, or is missing and may not be created
//	        Creating, Deleting  it is being created or deleted
//
// Conditions of other types belong to those who set them.
//
// # Deletions and restarts
//
// A deletion is never given up, except that of a paused object, which is refused. Until the resource is gone the row stays
// Blocked, "still deleting", which is not a failure.
//
// If a program removes a row from the table itself, the resource that the process remembers is deleted as well. If the row
// is paused, or its create unsure, that waits until a person puts the row back; Explain and an event report it. A row that
// returns under another external name waits until the old resource is gone. Two events report a resource that was left in
// place because the reconciler cannot tell whether it is still wanted:
//
//	ExternalNameChanged   the resource that the row named before: delete it, or name it again
//	CannotTellIfManaged   the resource named by a row that was removed before a pass saw it
//
// After a restart tables are empty. Observing finds the resources again if their names are in the source of the rows, or can
// be derived from it. Otherwise [WithCriticalAnnotationUpdater] writes the notes to durable storage. Annotations that only
// Create has set are lost too, unless Observe sets them again.
//
// The first resync of a [reconciler.Lister] deletes every listed resource without a row: also one that was left in place,
// without [WithLeaveHook], and that of an object that was taken out of the desired state while no process ran, whatever its
// policy was. So write the rows before Run, or register an initializer of the statedb table for each source of rows, and
// set [reconciler.WithOrphanBudget].
//
// # Rows and annotations
//
// A plain Insert replaces the whole row, with its policies and its pause; the next pass puts back the notes and the
// annotations that Create has set. [Writer.Apply] leaves them alone. A pass goes on while its row is written, unless the
// object is being deleted now, is paused, has other policies or names another resource; the next pass follows at once. If a
// person names a resource while Create runs, the row keeps that name, and the event ExternalNameChanged reports the resource
// that was created. For other reconcilers of the row see [Reconciler.Merge].
//
// Write annotations with [Writer.Edit], which makes the row Pending: otherwise the loop does not notice the change. The keys
// begin with "statekeel.io/". A person or a program writes:
//
//	reconcile-requested-at   RequestReconcile       any new text asks for a pass now
//	paused                   SetPaused              "true" pauses the object
//	poll-interval            SetPollInterval        a duration such as "30s"
//	management-policies      SetManagementPolicies  actions separated by commas; empty pauses; invalid ones are an error,
//	                                                and nothing is done until they are valid
//	deletion-policy          SetDeletionPolicy      "Orphan" leaves the resource in place
//	external-name            SetExternalName        takes over an existing resource
//
// The annotations override the fields of Meta, and those the options. The reconciler writes external-create-pending,
// -succeeded, -failed and -changes, and reconcile-handled-at, which repeats the request that it has observed the resource
// for.
package managed
