// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"

	"github.com/statekeel/statekeel/reconciler/event"
)

// The reasons of the events that a managed reconciler records.
const (
	ReasonEventPaused          event.Reason = "ReconciliationPaused"
	ReasonDeletionRefused      event.Reason = "DeletionRefused"
	ReasonPolicyInvalid        event.Reason = "InvalidManagementPolicy"
	ReasonPollIntervalInvalid  event.Reason = "InvalidPollInterval"
	ReasonCannotInitialize     event.Reason = "CannotInitializeManagedResource"
	ReasonCannotTellIfCreated  event.Reason = "CannotTellIfCreated"
	ReasonCannotResolve        event.Reason = "CannotResolveResourceReferences"
	ReasonCannotConnect        event.Reason = "CannotConnectToProvider"
	ReasonCannotDisconnect     event.Reason = "CannotDisconnectFromProvider"
	ReasonCannotObserve        event.Reason = "CannotObserveExternalResource"
	ReasonCannotCreate         event.Reason = "CannotCreateExternalResource"
	ReasonCannotUpdate         event.Reason = "CannotUpdateExternalResource"
	ReasonCannotDelete         event.Reason = "CannotDeleteExternalResource"
	ReasonCannotPublish        event.Reason = "CannotPublishConnectionDetails"
	ReasonCannotUnpublish      event.Reason = "CannotUnpublishConnectionDetails"
	ReasonCannotFinalize       event.Reason = "CannotChangeFinalizer"
	ReasonCannotWriteManaged   event.Reason = "CannotUpdateManagedResource"
	ReasonPendingConfirmation  event.Reason = "PendingExternalResource"
	ReasonCreated              event.Reason = "CreatedExternalResource"
	ReasonUpdated              event.Reason = "UpdatedExternalResource"
	ReasonDeletionRequested    event.Reason = "DeletedExternalResource"
	ReasonWaitsForOtherCleanup event.Reason = "WaitingForOtherFinalizers"
)

var (
	errCreateUnsure  = errors.New("the external resource may or may not have been created: find out, and note what you find on the row (managed.DecideCreate)")
	errMissing       = errors.New("the external resource does not exist, and may not be created")
	errStillThere    = errors.New("the external resource is still there")
	errNotSeenYet    = errors.New("the external resource was created lately and is not seen yet")
	errPausedDelete  = errors.New("the object is paused: its deletion is refused until it is resumed")
	errPausedRemoved = errors.New("the row was taken out while it was paused: put it back and resume it to have the external resource deleted")
)
