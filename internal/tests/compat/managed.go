// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// managedSystem maps a reconciler of managed resources, as providers of clouds have it.
var managedSystem = system{
	title: "Managed resources: package reconciler/managed",
	pkg:   "managed",
	about: "A reconciler of resources in an outside system, as crossplane-runtime has it: see the " +
		"[package](../reconciler/managed/doc.go). Rows embed `managed.Meta`, and most types have the row type as a parameter. " +
		"The defaults are the same: polls every minute (zero: never), a grace period of 30 s. What is in package `meta`, the " +
		"spec or the API types there is a function, a field of `Meta` or an annotation here; annotations win. Conditions have the same words, plus `CreateUnsure` and " +
		"`ReconcileWaiting`.",
	same: []string{
		"ControllerName",
		"CriticalAnnotationUpdater: UpdateCriticalAnnotations",
		"CriticalAnnotationUpdateFn: UpdateCriticalAnnotations",
		"ExternalConnecter: Connect",
		"ExternalConnectorFn: Connect",
		"ExternalDisconnectorFn: Disconnect",
		"ExternalConnectDisconnecter",
		"ExternalConnectDisconnecterFns: ConnectFn, DisconnectFn, Connect, Disconnect",
		"NopClient: Observe, Create, Update, Delete",
		"NopConnecter: Connect",
		"NopDisconnecter: Connect, Disconnect",
		"NewNopDisconnecter, PollIntervalHook, Reconciler",
		"WithCreationGracePeriod, WithCriticalAnnotationUpdater, WithExternalConnectDisconnecter, WithExternalConnecter",
		"WithLogger, WithPollInterval, WithPollIntervalHook, WithPollJitterHook, WithRecorder",
	},
	rows: []row{
		{"FinalizerName", "FinalizerName", "another value, `statekeel.io/managed`"},
		{"RetryingCriticalAnnotationUpdater: UpdateCriticalAnnotations; NewRetryingCriticalAnnotationUpdater",
			"RetryingCriticalAnnotationUpdater: UpdateCriticalAnnotations; NewRetryingCriticalAnnotationUpdater",
			"made from database, table and clone function. On a row that was changed meanwhile it writes only the annotations"},
		{"ExternalClient: Observe, Create, Update, Delete", "ExternalClient: Observe, Create, Update, Delete",
			"a `Create` that fails after the timeout, or while the program stops, may have happened: the object waits for a " +
				"person, unless names are deterministic; there it is created again. Errors may be outcomes, such as " +
				"`reconciler.RetryAfter`"},
		{"ExternalClientFns: ObserveFn, CreateFn, UpdateFn, DeleteFn, Observe, Create, Update, Delete",
			"ExternalClientFns: ObserveFn, CreateFn, UpdateFn, DeleteFn, Observe, Create, Update, Delete",
			"a nil function does what `NopClient` does; there it panics"},
		{"ExternalDisconnecter: Disconnect", "ExternalDisconnecter: Disconnect",
			"a client that implements it is disconnected, too"},
		{"ExternalObservation: ResourceExists, ResourceUpToDate, ResourceLateInitialized, Diff",
			"ExternalObservation: ResourceExists, ResourceUpToDate, ResourceLateInitialized, Diff",
			"everything that `Observe` sets on the row is written. Without the policy `LateInitialize` only the calls of the pass " +
				"see it, and `WithObserved` selects what is written"},
		{"Reconciler.Reconcile", "Reconciler.Update, Reconciler.Delete",
			"a pass is an Update. Delete is for rows that were taken out of the table by force"},
		{"NewReconciler", "NewReconciler", "takes a `reconciler.Config`, and returns an error where the other panics"},
		{"ReconcilerOption", "ReconcilerOption", "has no type parameter; the options that need one take it"},
		{"WithFinalizer", "WithFinalizer",
			"finalizers of others are waited for before the resource is deleted, not only before the row goes"},
		{"WithTimeout", "WithTimeout",
			"bounds all calls of a pass together, with initializers, publishers and finalizers; one minute by default"},
		{"resource.Finalizer", "Finalizer: AddFinalizer, RemoveFinalizer", "`NewFinalizer` makes one from a name"},
		{"event.Recorder", "event.Recorder: Event",
			"in [reconciler/event](../reconciler/event): to the log, or to a table"},
		{"resource.Managed, client.Object", "Managed, Resource, Meta, object.Object",
			"a row has all of it by embedding `Meta`"},
		{"resource.ManagedKind", "", "the table has the type of its rows"},
		{"client.Client, manager.Manager", "reconciler.Config: DB, Table, Clone",
			"the database is the client and the cache"},
		{"logging.Logger", "", "loggers are `*slog.Logger`"},
	},
	only: []string{
		"Configure, Reconciler.Merge",
		"Writer: Apply, Delete, Edit; NewWriter, ErrTerminating",
		"AnnotationPaused, AnnotationExternalName, AnnotationPrefix, GetExternalName, SetExternalName, IsPaused, SetPaused",
		"RequestReconcile, ReconcileHandled, IsCreateIncomplete, DecideCreate",
		"ManagementPolicies, WithManagementPolicies, SetManagementPolicies, SetDeletionPolicy",
		"Condition, TypeSynced, TypeReady, IsReady, IsSynced, WaitReady",
		"WithDeterministicExternalName, NewNameAsExternalName, WithInitializers, WithLeaveHook",
		"WithConnectionPublishers, NoteConnection, ExternalObservation.ConnectionDetails",
		"ErrCreateUnsure, Txn, WithObserved",
	},
}
