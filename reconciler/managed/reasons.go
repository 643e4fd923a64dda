// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/reconciler/event"
)

// The reasons of events of [event.TypeNormal]: something was done or has started. There is no event when a
// deleted resource is gone, because the object goes with it.
const (
	reasonCreated              event.Reason = "CreatedExternalResource"
	reasonUpdated              event.Reason = "UpdatedExternalResource"
	reasonDeletionRequested    event.Reason = "DeletedExternalResource"
	reasonPendingConfirmation  event.Reason = "PendingExternalResource"
	reasonEventPaused          event.Reason = "ReconciliationPaused"
	reasonWaitsForOtherCleanup event.Reason = "WaitingForOtherFinalizers"
)

// The reasons of events of [event.TypeWarning]: a step failed, or a person has to act. The message is the
// error. If a step waits by [reconciler.Blocked], one event with the reason of the step is recorded.
const (
	reasonCannotInitialize   event.Reason = "CannotInitializeManagedResource"
	reasonCannotConnect      event.Reason = "CannotConnectToProvider"
	reasonCannotDisconnect   event.Reason = "CannotDisconnectFromProvider"
	reasonCannotObserve      event.Reason = "CannotObserveExternalResource"
	reasonCannotCreate       event.Reason = "CannotCreateExternalResource"
	reasonCannotUpdate       event.Reason = "CannotUpdateExternalResource"
	reasonCannotDelete       event.Reason = "CannotDeleteExternalResource"
	reasonCannotLeave        event.Reason = "CannotLeaveExternalResource"
	reasonCannotPublish      event.Reason = "CannotPublishConnectionDetails"
	reasonCannotUnpublish    event.Reason = "CannotUnpublishConnectionDetails"
	reasonCannotFinalize     event.Reason = "CannotChangeFinalizer"
	reasonCannotWriteManaged event.Reason = "CannotUpdateManagedResource"

	reasonPolicyInvalid       event.Reason = "CannotUseInvalidManagementPolicy"
	reasonPollIntervalInvalid event.Reason = "InvalidPollInterval"
	reasonDeletionRefused     event.Reason = "DeletionRefused"
	reasonCannotTellIfCreated event.Reason = "CannotTellIfCreated"
	// The row names another resource than before, which is left in place. Whether a program changed the row
	// or put another one in its place cannot be told.
	reasonExternalNameChanged event.Reason = "ExternalNameChanged"
	// A row that names a resource was removed before a pass saw it. Whether the resource belongs to it cannot
	// be told, so it is left in place.
	reasonCannotTellIfManaged event.Reason = "CannotTellIfManaged"
)

// decideCreate tells a person what to do about a create whose result is not known.
const decideCreate = "find out, and note what you find on the row (by the program's command that calls managed.DecideCreate)"

var (
	errCreateUnsure  = fmt.Errorf("%w: %s", ErrCreateUnsure, decideCreate)
	errMissing       = errors.New("the external resource does not exist, and may not be created")
	errNotSeenYet    = errors.New("the external resource was created lately and is not found")
	errMayAppear     = errors.New("the external resource may have been created lately, and would not be seen yet")
	errNeverSeen     = errors.New("the row was taken out before a pass saw it: the resource that it names is left as it is")
	errRowBefore     = errors.New("waits for the external resource of the row before, which was taken out, to be deleted")
	errPausedDelete  = errors.New("the object is paused: its deletion is refused until it is resumed")
	errPausedRemoved = errors.New("the row was taken out while it was paused: put it back and resume it to have the external resource deleted")
)
