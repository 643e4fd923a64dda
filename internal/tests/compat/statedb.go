// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// statedbSystem maps github.com/cilium/statedb/reconciler v0.9.4 and its published documentation.
var statedbSystem = system{
	title: "statedb/reconciler: package reconciler",
	pkg:   "reconciler",
	about: "`github.com/cilium/statedb/reconciler` v0.9.4. Change the import path, and programs compile and do the " +
		"same: [internal/tests/dropin](../internal/tests/dropin/doc.go) runs programs against both. `NewStatusIndex` and " +
		"`WaitForReconciliation` are in its documentation only.",
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
		{"Params.Lifecycle, Params.Health", "",
			"of older versions; the job group starts and stops the loop, and its jobs report health"},
		{"Params.Jobs", "Params.JobGroup", "as in v0.9.4"},
		{"Config.CloneObject, GetObjectStatus, SetObjectStatus", "Config: Clone, GetStatus, SetStatus",
			"in its documentation, for arguments of `Register`"},
		{"RefreshInterval, PruneInterval", "Settings: RefreshInterval, PruneInterval",
			"in its documentation, for what options set; here they can change at run time"},
		{"StatusKind.MarshalJSON, StatusKind.UnmarshalJSON, StatusKind.MarshalYAML, StatusKind.UnmarshalYAML",
			"StatusKind.MarshalText, StatusKind.UnmarshalText",
			"JSON and YAML are the same"},
	},
	only: []string{
		"StatusKindBlocked",
	},
	further: `
### What behaves differently

On purpose; everything else new has to be asked for.

| | statedb/reconciler v0.9.4 | Statekeel |
|---|---|---|
| first retry | after twice the minimum backoff | after the minimum |
| backoffs | exact | up to 10 % shorter at random, alike for the objects of one batch call; exact if ` + "`Settings.Jitter`" + ` is 0 |
| change of a failing object | tried at once, with a new backoff | tried when the minimum backoff has passed since the last attempt; failures stay counted |
| retries while a writer saturates the table | never | a quarter of the operations |
| new changes behind a backlog | wait for all of it | get a share if an object takes more than 50 µs, so objects may change in another order than written |
| retries of batched objects | one by one, through ` + "`Operations`" + ` | in batches; batch operations are enough |
| a failure that repeats with the same text | written at each attempt | written once; what ` + "`Update`" + ` sets on later clones is not written |
| another reconciler writes its status meanwhile | a failed attempt puts the old status back; the outcome of a retry is dropped: ` + "`Error`" + ` for good | the outcome is written onto the current object |
| ` + "`Error`" + ` of an earlier run or another process | stays; ` + "`WaitUntilReconciled`" + ` returns | is run again, unless made by hand, with ID 0 |
| an operation that the stop cancels | ` + "`Error`" + ` in the row | the row stays, and the next run begins with it |
| a refresh | writes ` + "`Refreshing`" + ` first | the row stays Done until the operation ends; ` + "`Update`" + ` gets a clone that is ` + "`Refreshing`" + ` |
| a failed prune | waits for the next interval; disappears from health | retried with backoff; in health until one succeeds |
| health | joins the errors of operations, then that of a prune; "Next refresh in 1m0s", also long after | joins texts, that of a prune first; the refresh has the time of day |
| rounds | 1000 a second by default; a nil limiter panics; three for one insert | no limit by default and with nil, gathered under load; one for one insert |
| ` + "`WaitUntilReconciled`" + ` | returns too early if rows that others rewrite do not fit into a round; while an object fails, its revision is that of the last change read | waits for them; its revision is that of the last change that asked for an operation |
| a panic in an operation | ends the program | an error of that object, unless ` + "`Config.PanicPropagation`" + ` is set |
| rows with a zero status | ignored silently | ignored, with one warning in the log |
| an unknown status kind in JSON or YAML | accepted | an error |
| contradicting options | mostly accepted | an error that names both |
| ` + "`StatusKind`" + ` | a struct | a ` + "`uint8`" + ` with the same names and words |
| ` + "`StatusSet`" + ` | ` + "`All`" + ` reads the set when ranged over, and needs an addressable one; times as set | reads it when called; times are local, without monotonic reading |
| published metrics | a second ` + "`NewExpVarMetrics`" + ` panics; ` + "`Map`" + ` is empty | it returns the same; ` + "`Map`" + ` has all variables |
`,
}
