// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/reconciler/event"
)

// The reasons of the events that a managed reconciler records: these when something goes on, as
// events of [event.TypeNormal],
const (
	// ReasonCreated: the outside system was asked to create the resource, and said that it did.
	ReasonCreated event.Reason = "CreatedExternalResource"
	// ReasonUpdated: it was asked to update it.
	ReasonUpdated event.Reason = "UpdatedExternalResource"
	// ReasonDeletionRequested: it was asked to delete it. That the resource is gone has no
	// event: the object goes with it.
	ReasonDeletionRequested event.Reason = "DeletedExternalResource"
	// ReasonPendingConfirmation: what was created lately is not seen yet (see
	// [WithCreationGracePeriod]).
	ReasonPendingConfirmation event.Reason = "PendingExternalResource"
	// ReasonEventPaused: the object is left alone from now on (see [SetPaused]).
	ReasonEventPaused event.Reason = "ReconciliationPaused"
	// ReasonWaitsForOtherCleanup: the object is to be deleted, and has finalizers of others, who
	// have to clean up first.
	ReasonWaitsForOtherCleanup event.Reason = "WaitingForOtherFinalizers"
)

// and these when something went wrong or somebody has to act, as events of [event.TypeWarning],
// with the error as the message. What a step waits for, by [reconciler.Blocked], is told once, with
// the reason of the step.
const (
	// ReasonCannotTellIfCreated: a person has to decide (see [DecideCreate]).
	ReasonCannotTellIfCreated event.Reason = "CannotTellIfCreated"
	// ReasonDeletionRefused: the object is to be deleted and paused (see [SetPaused]).
	ReasonDeletionRefused event.Reason = "DeletionRefused"
	// ReasonPolicyInvalid: the policies of the object cannot be read, and nothing is done until
	// they can (see [SetManagementPolicies], [SetDeletionPolicy]).
	ReasonPolicyInvalid event.Reason = "CannotUseInvalidManagementPolicy"
	// ReasonPollIntervalInvalid: that of the object cannot be read, and that of all objects is
	// used (see [SetPollInterval]).
	ReasonPollIntervalInvalid event.Reason = "InvalidPollInterval"
	// ReasonCannotInitialize: an [Initializer] failed.
	ReasonCannotInitialize event.Reason = "CannotInitializeManagedResource"
	// ReasonCannotResolve: a [ReferenceResolver] failed.
	ReasonCannotResolve event.Reason = "CannotResolveResourceReferences"
	// ReasonCannotConnect: [ExternalConnecter].Connect failed.
	ReasonCannotConnect event.Reason = "CannotConnectToProvider"
	// ReasonCannotDisconnect: [ExternalDisconnecter].Disconnect failed, which changes nothing.
	ReasonCannotDisconnect event.Reason = "CannotDisconnectFromProvider"
	// ReasonCannotObserve: [ExternalClient].Observe failed, or the resource does not exist and
	// may not be created.
	ReasonCannotObserve event.Reason = "CannotObserveExternalResource"
	// ReasonCannotCreate: [ExternalClient].Create failed.
	ReasonCannotCreate event.Reason = "CannotCreateExternalResource"
	// ReasonCannotUpdate: [ExternalClient].Update failed.
	ReasonCannotUpdate event.Reason = "CannotUpdateExternalResource"
	// ReasonCannotDelete: [ExternalClient].Delete failed.
	ReasonCannotDelete event.Reason = "CannotDeleteExternalResource"
	// ReasonCannotLeave: the hook of [WithLeaveHook] failed.
	ReasonCannotLeave event.Reason = "CannotLeaveExternalResource"
	// ReasonExternalNameChanged: the row names another resource than before, which is left as it
	// is: delete it, or name it again. Whether a program changed the row or put another in its
	// place is not known.
	ReasonExternalNameChanged event.Reason = "ExternalNameChanged"
	// ReasonCannotTellIfManaged: a row that names a resource was taken out before a pass saw it.
	// Whether the resource is ours is not known, and it is left as it is.
	ReasonCannotTellIfManaged event.Reason = "CannotTellIfManaged"
	// ReasonCannotPublish and ReasonCannotUnpublish: a [ConnectionPublisher] failed.
	ReasonCannotPublish   event.Reason = "CannotPublishConnectionDetails"
	ReasonCannotUnpublish event.Reason = "CannotUnpublishConnectionDetails"
	// ReasonCannotFinalize: a [Finalizer] failed, or what it did could not be written.
	ReasonCannotFinalize event.Reason = "CannotChangeFinalizer"
	// ReasonCannotWriteManaged: what the reconciler has to note on the row could not be
	// written.
	ReasonCannotWriteManaged event.Reason = "CannotUpdateManagedResource"
)

// decideCreate is what a person has to do about a create of which nobody knows what came of it.
const decideCreate = "find out, and note what you find on the row (by the program's command that calls managed.DecideCreate)"

var (
	errCreateUnsure  = fmt.Errorf("%w: %s", ErrCreateUnsure, decideCreate)
	errMissing       = errors.New("the external resource does not exist, and may not be created")
	errNotSeenYet    = errors.New("the external resource was created lately and is not seen yet")
	errMayAppear     = errors.New("the external resource may have been created lately, and would not be seen yet")
	errNeverSeen     = errors.New("the row was taken out before a pass saw it: the resource that it names is left as it is")
	errRowBefore     = errors.New("waits for the external resource of the row before, which was taken out, to be deleted")
	errPausedDelete  = errors.New("the object is paused: its deletion is refused until it is resumed")
	errPausedRemoved = errors.New("the row was taken out while it was paused: put it back and resume it to have the external resource deleted")
)
