// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/reconciler/event"
)

// The reasons of events of [event.TypeNormal]: something was done or has started.
const (
	// ReasonCreated: the outside system was asked to create the resource, and confirmed it.
	ReasonCreated event.Reason = "CreatedExternalResource"
	// ReasonUpdated: the outside system was asked to update the resource.
	ReasonUpdated event.Reason = "UpdatedExternalResource"
	// ReasonDeletionRequested: the outside system was asked to delete the resource. There is no event
	// when the resource is gone, because the object goes with it.
	ReasonDeletionRequested event.Reason = "DeletedExternalResource"
	// ReasonPendingConfirmation: a resource that was created lately is not visible yet (see
	// [WithCreationGracePeriod]).
	ReasonPendingConfirmation event.Reason = "PendingExternalResource"
	// ReasonEventPaused: the object is paused (see [SetPaused]).
	ReasonEventPaused event.Reason = "ReconciliationPaused"
	// ReasonWaitsForOtherCleanup: the object is being deleted, and has finalizers of others, who must
	// clean up first.
	ReasonWaitsForOtherCleanup event.Reason = "WaitingForOtherFinalizers"
)

// The reasons of events of [event.TypeWarning]: something failed, or a person has to act. The message
// is the error. If a step waits by [reconciler.Blocked], one event with the reason of the step is
// recorded.
const (
	// ReasonCannotTellIfCreated: a person has to decide (see [DecideCreate]).
	ReasonCannotTellIfCreated event.Reason = "CannotTellIfCreated"
	// ReasonDeletionRefused: the object is being deleted and is paused (see [SetPaused]).
	ReasonDeletionRefused event.Reason = "DeletionRefused"
	// ReasonPolicyInvalid: the policies of the object are invalid, and nothing is done until they are
	// valid (see [SetManagementPolicies], [SetDeletionPolicy]).
	ReasonPolicyInvalid event.Reason = "CannotUseInvalidManagementPolicy"
	// ReasonPollIntervalInvalid: the poll interval of the object is invalid, and that of all objects
	// applies (see [SetPollInterval]).
	ReasonPollIntervalInvalid event.Reason = "InvalidPollInterval"
	// ReasonCannotInitialize: an [Initializer] failed.
	ReasonCannotInitialize event.Reason = "CannotInitializeManagedResource"
	// ReasonCannotResolve: a [ReferenceResolver] failed.
	ReasonCannotResolve event.Reason = "CannotResolveResourceReferences"
	// ReasonCannotConnect: [ExternalConnecter].Connect failed.
	ReasonCannotConnect event.Reason = "CannotConnectToProvider"
	// ReasonCannotDisconnect: [ExternalDisconnecter].Disconnect failed. The outcome of the pass stays
	// the same.
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
	// ReasonExternalNameChanged: the row names another resource than before, and the earlier one is
	// left in place: delete it, or name it again. The reconciler cannot tell whether a program changed
	// the row or put another one in its place.
	ReasonExternalNameChanged event.Reason = "ExternalNameChanged"
	// ReasonCannotTellIfManaged: a row that names a resource was removed before a pass saw it. The
	// reconciler cannot tell whether the resource is its own, and leaves it in place.
	ReasonCannotTellIfManaged event.Reason = "CannotTellIfManaged"
	// ReasonCannotPublish and ReasonCannotUnpublish: a [ConnectionPublisher] failed.
	ReasonCannotPublish   event.Reason = "CannotPublishConnectionDetails"
	ReasonCannotUnpublish event.Reason = "CannotUnpublishConnectionDetails"
	// ReasonCannotFinalize: a [Finalizer] failed, or its change could not be written.
	ReasonCannotFinalize event.Reason = "CannotChangeFinalizer"
	// ReasonCannotWriteManaged: a note of the reconciler could not be written onto the row.
	ReasonCannotWriteManaged event.Reason = "CannotUpdateManagedResource"
)

// decideCreate tells a person what to do about a create whose result is not known.
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
