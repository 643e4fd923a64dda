// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// managedSystem maps a reconciler of managed resources, as providers of clouds have it.
var managedSystem = system{
	title: "Managed resources: package reconciler/managed",
	pkg:   "managed",
	about: "A reconciler of resources in an outside system, as crossplane-runtime has it: see the " +
		"[package](../reconciler/managed/doc.go). Rows embed `managed.Meta`, and most types have the row type as a parameter. " +
		"`Reconciler` is the operations of a loop, which `Configure` makes. The defaults are the same: polls every minute " +
		"(zero: never), a grace period of 30 s.",
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
		{"FinalizerName", "FinalizerName", adapted, "another value, `statekeel.io/managed`"},
		{"RetryingCriticalAnnotationUpdater: UpdateCriticalAnnotations; NewRetryingCriticalAnnotationUpdater",
			"RetryingCriticalAnnotationUpdater: UpdateCriticalAnnotations; NewRetryingCriticalAnnotationUpdater", adapted,
			"made from database, table and clone function in place of a client. On a row that was changed meanwhile it writes only " +
				"the annotations"},
		{"ExternalClient: Observe, Create, Update, Delete", "ExternalClient: Observe, Create, Update, Delete", adapted,
			"a `Create` that fails after the timeout, or while the program stops, may have happened: the object waits for a " +
				"person, unless names are deterministic. There it is noted as failed and created again. Errors may be outcomes: " +
				"`reconciler.RetryAfter`, `reconciler.TerminalError`, `reconciler.Blocked`"},
		{"ExternalClientFns: ObserveFn, CreateFn, UpdateFn, DeleteFn, Observe, Create, Update, Delete",
			"ExternalClientFns: ObserveFn, CreateFn, UpdateFn, DeleteFn, Observe, Create, Update, Delete", adapted,
			"a nil function does what `NopClient` does; there it panics"},
		{"ExternalDisconnecter: Disconnect", "ExternalDisconnecter: Disconnect", adapted,
			"a client that implements it is disconnected, too"},
		{"ExternalObservation: ResourceExists, ResourceUpToDate, ResourceLateInitialized, Diff",
			"ExternalObservation: ResourceExists, ResourceUpToDate, ResourceLateInitialized, Diff", adapted,
			"a row is not divided into spec and status: everything that `Observe` sets is written. Without the policy " +
				"`LateInitialize` only the calls of the pass see it, and `WithObserved` selects what is written"},
		{"Reconciler.Reconcile", "Reconciler.Update, Reconciler.Delete", adapted,
			"a pass is an Update. Delete is for rows that were taken out of the table by force"},
		{"NewReconciler", "NewReconciler", adapted,
			"takes a `reconciler.Config` in place of a manager and a kind, and returns an error where the other panics"},
		{"ReconcilerOption", "ReconcilerOption", adapted, "has no type parameter; the options that need one take it"},
		{"WithFinalizer", "WithFinalizer", adapted,
			"finalizers of others are waited for before the resource is deleted, not only before the row goes"},
		{"WithTimeout", "WithTimeout", adapted,
			"bounds all calls of a pass together, including initializers, publishers and finalizers; one minute by " +
				"default. The status is written after it"},
		{"resource.Finalizer", "Finalizer: AddFinalizer, RemoveFinalizer", adapted,
			"our own interface; `NewFinalizer` makes one from a name"},
		{"event.Recorder", "event.Recorder: Event", adapted,
			"in [reconciler/event](../reconciler/event): to the log, or to a table"},
		{"resource.Managed, client.Object", "Managed, Resource, Meta, object.Object", adapted,
			"no types of Kubernetes: a row has all of it by embedding `Meta`"},
		{"resource.ManagedKind", "", leftOut, "the table has the type of its rows"},
		{"client.Client, manager.Manager", "reconciler.Config: DB, Table, Clone", adapted,
			"the database is the client and the cache"},
		{"logging.Logger", "", leftOut, "loggers are `*slog.Logger`, as in the loop"},
		{"", "Configure, Reconciler.Merge", added, "the configuration of a loop, and its `Config.Merge`"},
		{"", "Writer: Apply, Delete, Edit; NewWriter, ErrTerminating", added,
			"does what an API server does at a write: the generation and the deletion time. `Apply` calls a function on the row, " +
				"as `CreateOrUpdate` of controller-runtime does"},
		{"", "AnnotationPaused, AnnotationExternalName, AnnotationPrefix, GetExternalName, SetExternalName, " +
			"IsPaused, SetPaused, RequestReconcile, ReconcileHandled, IsCreateIncomplete, DecideCreate", added,
			"in package `meta` there, or annotations that people write by hand"},
		{"", "ManagementPolicies, WithManagementPolicies, SetManagementPolicies, SetDeletionPolicy", added,
			"fields of the spec there. Here they are fields of `Meta` and annotations; annotations win"},
		{"", "Condition, TypeSynced, TypeReady, IsReady, IsSynced, WaitReady", added,
			"in the API types there. The reasons have the same words, plus `CreateUnsure` and `ReconcileWaiting`. `kubectl wait` is `WaitReady`"},
		{"", "WithDeterministicExternalName, NewNameAsExternalName, WithInitializers", added, "as in crossplane-runtime"},
		{"", "WithLeaveHook", added, "marks the resources of orphaned rows, so that a resync leaves them; there are no resyncs there"},
		{"", "WithConnectionPublishers, NoteConnection, ExternalObservation.ConnectionDetails", added,
			"a secret of Kubernetes there"},
		{"", "ErrCreateUnsure, Txn, WithObserved", added,
			"an error and a transaction for clients; what is written of an observation"},
	},
}
