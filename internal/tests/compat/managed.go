// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// managedSystem maps a reconciler of managed resources, as providers of clouds have it.
var managedSystem = system{
	title: "Managed resources: package reconciler/managed",
	pkg:   "managed",
	about: "A reconciler of [resources in an outside system](../reconciler/managed/doc.go), as crossplane-runtime has it. " +
		"Rows embed `managed.Meta`, and most types have the row type as a parameter. The defaults are the same. What is in " +
		"package `meta`, the spec or the API types there is a function, a field of `Meta` or an annotation here; annotations " +
		"win. Conditions have the same words, plus `CreateUnsure` and `ReconcileWaiting`.",
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
			"made from database, table and clone function. Onto a row that was changed meanwhile it writes only the annotations"},
		{"ExternalClient: Observe, Create, Update, Delete", "ExternalClient: Observe, Create, Update, Delete",
			"a `Create` that fails after the timeout, or while the program stops, may have happened: the object waits for a person, " +
				"unless names are deterministic; there it is created again. Errors may be outcomes"},
		{"ExternalClientFns: ObserveFn, CreateFn, UpdateFn, DeleteFn, Observe, Create, Update, Delete",
			"ExternalClientFns: ObserveFn, CreateFn, UpdateFn, DeleteFn, Observe, Create, Update, Delete",
			"a nil function does what `NopClient` does; there it panics"},
		{"ExternalDisconnecter: Disconnect", "ExternalDisconnecter: Disconnect",
			"of a client, too"},
		{"ExternalObservation: ResourceExists, ResourceUpToDate, ResourceLateInitialized, Diff",
			"ExternalObservation: ResourceExists, ResourceUpToDate, ResourceLateInitialized, Diff",
			"what `Observe` sets on the row is written; without the policy `LateInitialize` only what `WithObserved` selects"},
		{"Reconciler.Reconcile", "Reconciler.Update, Reconciler.Delete",
			"a pass is an Update. Delete is for rows that were taken out of the table by force"},
		{"NewReconciler", "NewReconciler", "takes a `reconciler.Config`; returns an error where the other panics"},
		{"ReconcilerOption", "ReconcilerOption", "without a type parameter; the options that need one have it"},
		{"WithFinalizer", "WithFinalizer",
			"those of others are waited for before the resource is deleted, not only before the row goes"},
		{"WithTimeout", "WithTimeout",
			"bounds all calls of a pass together; one minute by default"},
		{"resource.Finalizer", "Finalizer: AddFinalizer, RemoveFinalizer", "`NewFinalizer` makes one from a name"},
		{"event.Recorder", "event.Recorder: Event",
			"in [reconciler/event](../reconciler/event): to the log, or to a table"},
		{"resource.Managed, client.Object", "Managed, Resource, Meta, object.Object",
			"by embedding `Meta`"},
		{"client.Client, manager.Manager", "reconciler.Config: DB, Table, Clone",
			"the database is client and cache"},
		{"resource.ManagedKind, logging.Logger", "", "the table has the type; loggers are `*slog.Logger`"},
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
