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
	// reasonCreated: the outside system was asked to create the resource, and confirmed it.
	reasonCreated event.Reason = "CreatedExternalResource"
	// reasonUpdated: the outside system was asked to update the resource.
	reasonUpdated event.Reason = "UpdatedExternalResource"
	// reasonDeletionRequested: the outside system was asked to delete the resource. There is no event
	// when the resource is gone, because the object goes with it.
	reasonDeletionRequested event.Reason = "DeletedExternalResource"
	// reasonPendingConfirmation: a resource that was created lately is not visible yet (see
	// [WithCreationGracePeriod]).
	reasonPendingConfirmation event.Reason = "PendingExternalResource"
	// reasonEventPaused: the object is paused (see [SetPaused]).
	reasonEventPaused event.Reason = "ReconciliationPaused"
	// reasonWaitsForOtherCleanup: the object is being deleted, and has finalizers of others, who must
	// clean up first.
	reasonWaitsForOtherCleanup event.Reason = "WaitingForOtherFinalizers"
)

// The reasons of events of [event.TypeWarning]: something failed, or a person has to act. The message
// is the error. If a step waits by [reconciler.Blocked], one event with the reason of the step is
// recorded.
const (
	// reasonCannotTellIfCreated: a person has to decide (see [DecideCreate]).
	reasonCannotTellIfCreated event.Reason = "CannotTellIfCreated"
	// reasonDeletionRefused: the object is being deleted and is paused (see [SetPaused]).
	reasonDeletionRefused event.Reason = "DeletionRefused"
	// reasonPolicyInvalid: the policies of the object are invalid, and nothing is done until they are
	// valid (see [SetManagementPolicies], [SetDeletionPolicy]).
	reasonPolicyInvalid event.Reason = "CannotUseInvalidManagementPolicy"
	// reasonPollIntervalInvalid: the poll interval of the object is invalid, and that of all objects
	// applies (see [SetPollInterval]).
	reasonPollIntervalInvalid event.Reason = "InvalidPollInterval"
	// reasonCannotInitialize: an [Initializer] failed.
	reasonCannotInitialize event.Reason = "CannotInitializeManagedResource"
	// reasonCannotResolve: a [ReferenceResolver] failed.
	reasonCannotResolve event.Reason = "CannotResolveResourceReferences"
	// reasonCannotConnect: [ExternalConnecter].Connect failed.
	reasonCannotConnect event.Reason = "CannotConnectToProvider"
	// reasonCannotDisconnect: [ExternalDisconnecter].Disconnect failed. The outcome of the pass stays
	// the same.
	reasonCannotDisconnect event.Reason = "CannotDisconnectFromProvider"
	// reasonCannotObserve: [ExternalClient].Observe failed, or the resource does not exist and
	// may not be created.
	reasonCannotObserve event.Reason = "CannotObserveExternalResource"
	// reasonCannotCreate: [ExternalClient].Create failed.
	reasonCannotCreate event.Reason = "CannotCreateExternalResource"
	// reasonCannotUpdate: [ExternalClient].Update failed.
	reasonCannotUpdate event.Reason = "CannotUpdateExternalResource"
	// reasonCannotDelete: [ExternalClient].Delete failed.
	reasonCannotDelete event.Reason = "CannotDeleteExternalResource"
	// reasonCannotLeave: the hook of [WithLeaveHook] failed.
	reasonCannotLeave event.Reason = "CannotLeaveExternalResource"
	// reasonExternalNameChanged: the row names another resource than before, and the earlier one is
	// left in place: delete it, or name it again. The reconciler cannot tell whether a program changed
	// the row or put another one in its place.
	reasonExternalNameChanged event.Reason = "ExternalNameChanged"
	// reasonCannotTellIfManaged: a row that names a resource was removed before a pass saw it. The
	// reconciler cannot tell whether the resource is its own, and leaves it in place.
	reasonCannotTellIfManaged event.Reason = "CannotTellIfManaged"
	// reasonCannotPublish and reasonCannotUnpublish: a [ConnectionPublisher] failed.
	reasonCannotPublish   event.Reason = "CannotPublishConnectionDetails"
	reasonCannotUnpublish event.Reason = "CannotUnpublishConnectionDetails"
	// reasonCannotFinalize: a [Finalizer] failed, or its change could not be written.
	reasonCannotFinalize event.Reason = "CannotChangeFinalizer"
	// reasonCannotWriteManaged: a note of the reconciler could not be written onto the row.
	reasonCannotWriteManaged event.Reason = "CannotUpdateManagedResource"
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
