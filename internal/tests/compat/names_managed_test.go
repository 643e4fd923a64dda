// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// managedNames are those of a reconciler of managed resources.
var managedNames = []string{
	"FinalizerName", "ControllerName",
	"CriticalAnnotationUpdateFn", "CriticalAnnotationUpdateFn.UpdateCriticalAnnotations",
	"CriticalAnnotationUpdater", "CriticalAnnotationUpdater.UpdateCriticalAnnotations",
	"ExternalClient", "ExternalClient.Observe", "ExternalClient.Create", "ExternalClient.Update", "ExternalClient.Delete",
	"ExternalClientFns", "ExternalClientFns.ObserveFn", "ExternalClientFns.CreateFn", "ExternalClientFns.UpdateFn",
	"ExternalClientFns.DeleteFn", "ExternalClientFns.Observe", "ExternalClientFns.Create", "ExternalClientFns.Update",
	"ExternalClientFns.Delete",
	"ExternalConnectDisconnecter", "NewNopDisconnecter",
	"ExternalConnectDisconnecterFns", "ExternalConnectDisconnecterFns.ConnectFn", "ExternalConnectDisconnecterFns.DisconnectFn",
	"ExternalConnectDisconnecterFns.Connect", "ExternalConnectDisconnecterFns.Disconnect",
	"ExternalConnecter", "ExternalConnecter.Connect", "ExternalConnectorFn", "ExternalConnectorFn.Connect",
	"ExternalDisconnecter", "ExternalDisconnecter.Disconnect", "ExternalDisconnectorFn", "ExternalDisconnectorFn.Disconnect",
	"ExternalObservation", "ExternalObservation.ResourceExists", "ExternalObservation.ResourceUpToDate",
	"ExternalObservation.ResourceLateInitialized", "ExternalObservation.Diff",
	"NopClient", "NopClient.Observe", "NopClient.Create", "NopClient.Update", "NopClient.Delete",
	"NopConnecter", "NopConnecter.Connect", "NopDisconnecter", "NopDisconnecter.Connect", "NopDisconnecter.Disconnect",
	"PollIntervalHook", "Reconciler", "NewReconciler", "ReconcilerOption",
	"WithCreationGracePeriod", "WithCriticalAnnotationUpdater", "WithExternalConnectDisconnecter", "WithExternalConnecter",
	"WithFinalizer", "WithLogger", "WithPollInterval", "WithPollIntervalHook", "WithPollJitterHook", "WithRecorder", "WithTimeout",
	"RetryingCriticalAnnotationUpdater", "RetryingCriticalAnnotationUpdater.UpdateCriticalAnnotations",
	"NewRetryingCriticalAnnotationUpdater",
	// In the text and the signatures of the documentation.
	"resource.Managed", "resource.ManagedKind", "resource.Finalizer", "event.Recorder", "logging.Logger",
	"client.Object", "client.Client", "manager.Manager", "Reconciler.Reconcile",
}
