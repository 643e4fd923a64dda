// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package managed reconciles rows that stand for resources of an outside system, such as the machines
// of a cloud or the tunnels of a broker. Such systems are slow, fail half way, show their own changes
// late, and charge for resources that were forgotten. The program implements how to observe, create,
// update and delete one resource; the reconciler never creates one twice and never forgets one.
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
// A pass is one operation of the loop on one object. It observes the resource, acts at most once on the
// difference, and ends in an outcome:
//
//  1. Notes of earlier passes that the row lacks are put back. If the object is paused, the pass ends.
//  2. The initializers are called. A row that still has no external name waits until what a resync has
//     begun to delete under its key is gone. If the object is being deleted and its policies keep the
//     resource, the row is removed and the resource is left in place.
//  3. If an earlier create may or may not have happened, the object waits for a person.
//  4. A deletion waits for the finalizers of others.
//  5. The connecter is called, and then Observe.
//  6. A resource that was created within [WithCreationGracePeriod] and is not found is waited for.
//     A deletion also waits that long if no creation was recorded.
//  7. If the object is being deleted: Delete is called while the resource exists. When it is gone, the
//     finalizer is removed, and the row if it has no other finalizer. Otherwise the next pass comes
//     soon, with backoff.
//  8. If the resource is missing: the finalizer and the note external-create-pending are written into
//     the table, Create is called, and its result is written before anything else is done. The next pass
//     comes soon, with backoff.
//  9. What Observe has filled in is written. If the resource is not up to date, Update is called. The
//     next pass comes after the poll interval: the object's own, else that of the option, as changed by the hook.
//
// [WithTimeout] bounds all calls of a pass together. A failed step is recorded as a condition and an event, and
// retried with backoff, or as the client decides: it returns [reconciler.RetryAfter], [reconciler.TerminalError] or
// [reconciler.Blocked]. The steps of a pass are its note in [reconciler.Loop.Explain] and in the journal. A poll that
// finds no change writes nothing. Rows are compared by [reflect.DeepEqual], so a row that has a function or a NaN, and
// whose Clone copies maps, slices or pointers, is written at each poll.
//
// A connecter looks up other rows, such as credentials, in the transaction of [Txn]. If it returns the error of
// [reconciler.Need], the object is Blocked, and wakes when the row is there. It is called for deletions, too: see
// [WasDeleted].
//
// # Create unsure
//
// A program can crash between a create and its answer, and a connection can break. Then a resource may exist whose name
// is not known. The object stops with the reason [ReasonCreateUnsure] and an event, until a person has looked in the
// outside system and noted with [Writer.Edit] what was found:
//
//	it exists under this name          managed.DecideCreate(row, "i-0abc")
//	it does not exist: create it       managed.DecideCreate(row, "")
//
// A client reports such a create with [ErrCreateUnsure]. Every other error of Create means that nothing was created,
// unless the context has ended. If names are known before the create, use [WithDeterministicExternalName]: then no object
// stops. The program needs a command for that decision, as in the example ByHand.
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
// The reconciler sets [TypeSynced]. The client sets [TypeReady] in Observe; if it does not, a resource that exists is
// Available. Conditions of other types belong to those who set them.
//
// # Management policies
//
// The policies of an object are the set of allowed actions. The annotation ([SetManagementPolicies])
// overrides the field of Meta, and that overrides [WithManagementPolicies]. Every set but the empty one must contain
// Observe. Invalid policies are an error, and nothing is done until they are valid.
//
//	policies                 effect
//	*                        everything; the default
//	Observe                  all that Observe sets is written, and a missing resource is an error; nothing
//	                         is changed, and deleting the object leaves the resource in place
//	without Create           a missing resource is an error
//	without Update           a resource that differs stays as it is
//	without Delete           the object goes, the resource stays
//	without LateInitialize   the calls of the pass see what Observe set; only conditions, annotations and what
//	                         WithObserved copies are written
//	none, as an annotation   the object is paused
//
// # Deletion
//
// [Writer.Delete] requests the deletion. The row stays until the resource is gone; meanwhile its status is Blocked,
// "still deleting", which is not a failure. A deletion is never given up. That of a paused object is refused, and the
// condition reports it.
//
// If a program removes a row from the table itself, the resource is deleted as well: the one that the process
// remembers. A row that returns under another external name waits until the old resource is gone. Two events report a
// resource that was left in place because the reconciler cannot tell whether it is still wanted:
//
//	ExternalNameChanged   the resource that the row named before: delete it, or name it again
//	CannotTellIfManaged   the resource named by a row that was removed before a pass saw it
//
// If a row is removed while it is paused, or while its create is unsure, its deletion waits until a
// person puts the row back. Explain reports it, and an event, once.
//
// An object with [DeletionOrphan], or with policies without Delete, leaves its resource in place when it is deleted. The
// next process does not know that: with a Lister use [WithLeaveHook], or its first resync deletes the resource. A resync
// also deletes the resource of an object that was taken out of the desired state while no process ran, whatever its
// policy was.
//
// # After a restart
//
// Tables are in memory and empty after a restart. Observing finds the resources again if their names
// are in the source of the rows, or can be derived from it. Otherwise use
// [WithCriticalAnnotationUpdater] to write the notes to durable storage. Annotations that only Create has set are lost
// too, unless Observe sets them again.
//
// A [reconciler.Lister] deletes resources without a row: see [Configure]. The first resync treats every listed resource
// without a row as not wanted: write the rows before Run, or register an initializer of the statedb table for each source
// of rows, and set [reconciler.WithOrphanBudget].
//
// # Writing rows
//
// [Writer.Apply] calls a function that sets what the program decides, on the row if there is one, and leaves the rest
// alone: notes, values that Observe has filled in, and the policies and the pause of a person. It asks for no pass if
// nothing changed. A plain Insert replaces the whole row, with its policies and its pause; the next pass puts back the
// notes and the annotations that Create has set.
//
// A row may be written while a pass for it runs. The pass goes on unless the object is being deleted now, is paused, has
// other policies or names another resource; the next pass follows at once. If a person names a resource while Create
// runs, the row keeps that name, and the event ExternalNameChanged reports the resource that was created. If another
// reconciler writes its own status on the row during a pass, nothing is lost: see [Reconciler.Merge].
//
// # Annotations
//
// Their keys begin with [AnnotationPrefix], "statekeel.io/". Write them with [Writer.Edit], which
// makes the row Pending: otherwise the loop does not notice the change. A person or a program writes:
//
//	reconcile-requested-at   RequestReconcile       any new text asks for a pass now
//	paused                   SetPaused              "true" pauses the object
//	poll-interval            SetPollInterval        a duration such as "30s"
//	management-policies      SetManagementPolicies  actions separated by commas; empty pauses
//	deletion-policy          SetDeletionPolicy      "Orphan" leaves the resource in place
//
// The reconciler writes external-create-pending, -succeeded, -failed and -changes, and reconcile-handled-at, which
// repeats the request that it has observed the resource for. external-name is set by the client in Create, by an
// initializer, or by a person who takes over an existing resource.
package managed
