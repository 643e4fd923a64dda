// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// statedbSystem maps github.com/cilium/statedb/reconciler v0.9.4 and its published documentation.
var statedbSystem = system{
	title: "statedb/reconciler: package reconciler",
	pkg:   "reconciler",
	about: "`github.com/cilium/statedb/reconciler` v0.9.4. Package `reconciler` is a drop-in: change the import path, " +
		"and programs compile and do the same. [internal/tests/dropin](../internal/tests/dropin/doc.go) runs programs, " +
		"which use every exported name, against both packages. Intended differences in behaviour are in the " +
		"[README](../README.md#moving-over-from-statedbreconciler). `NewStatusIndex` and `WaitForReconciliation` are in its " +
		"documentation, but not in v0.9.4; they are here.",
	same: []string{
		"Register",
		"Params: In, Log, DB, JobGroup, ModuleID, DefaultMetrics",
		"Reconciler: Prune, WaitUntilReconciled",
		"Operations: Update, Delete, Prune",
		"BatchOperations: UpdateBatch, DeleteBatch",
		"BatchEntry: Object, Revision, Result",
		"OpUpdate, OpDelete",
		"Option, WithName, WithMetrics, WithPruning, WithoutPruning, WithRefreshing, WithRetry, WithRoundLimits",
		"Status: Kind, UpdatedAt, Error, ID, IsPendingOrRefreshing, GetError, String",
		"StatusPending, StatusRefreshing, StatusDone, StatusError",
		"StatusKind: Key, String",
		"StatusKindUnset, StatusKindPending, StatusKindRefreshing, StatusKindDone, StatusKindError",
		"StatusSet: All, Get, Set, Pending, Delete, IsDone, IsPendingOrRefreshing, String, MarshalJSON, UnmarshalJSON, MarshalYAML",
		"NewStatusSet, NewStatusIndex, WaitForReconciliation",
		"Metrics: ReconciliationDuration, ReconciliationErrors, PruneError, PruneDuration",
		"ExpVarMetrics: ReconciliationCountVar, ReconciliationDurationVar, ReconciliationTotalErrorsVar, " +
			"ReconciliationCurrentErrorsVar, PruneCountVar, PruneDurationVar, PruneTotalErrorsVar, PruneCurrentErrorsVar, " +
			"ReconciliationDuration, ReconciliationErrors, PruneError, PruneDuration, Map",
		"NewExpVarMetrics, NewUnpublishedExpVarMetrics",
	},
	rows: []row{
		{"Params.Lifecycle, Params.Health", "", leftOut,
			"fields of older versions; the job group starts and stops the loop, and its jobs report health"},
		{"Params.Jobs", "Params.JobGroup", adapted,
			"as in v0.9.4: the job group of the module, not the registry that makes groups"},
		{"Config.CloneObject, GetObjectStatus, SetObjectStatus", "Config: Clone, GetStatus, SetStatus", adapted,
			"names in its documentation for arguments of `Register`; here they are fields of `Config` as well"},
		{"RefreshInterval, PruneInterval", "Settings: RefreshInterval, PruneInterval", adapted,
			"names in its documentation for what its options set; here they can be read, and changed at run time"},
		{"StatusKind.MarshalJSON, StatusKind.UnmarshalJSON, StatusKind.MarshalYAML, StatusKind.UnmarshalYAML",
			"StatusKind.MarshalText, StatusKind.UnmarshalText", adapted,
			"the JSON and YAML packages call the text methods; the documents are the same"},
		{"", "StatusKindBlocked", added,
			"the kind of an object that waits for a watch channel which its operation named"},
	},
}
