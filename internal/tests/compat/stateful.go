// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// statefulSystem maps a stateful reconciler, as a messaging operator has it.
var statefulSystem = system{
	title: "Stateful reconcilers: package reconciler/stateful",
	pkg:   "stateful",
	about: "A reconciler that [compares](../reconciler/stateful/doc.go) the desired state with the state applied last, " +
		"which is in an annotation. `StatefulReconciler[T, State, Item]` has type parameters for the row, its state and the " +
		"items of the state; a zero `State` means nothing. Rows embed `object.Meta`, which has the annotations.",
	same: []string{
		"StatefulReconciler: GetStateAnnotationKey, ExtractCurrentState, CompareStates, ApplyOperations",
		"StatefulResource, Object",
		"StateChangeOperations: ItemsToAdd, ItemsToRemove, ItemsToUpdate, PreviousContext",
		"BaseStatefulReconciler: Logger, HasStateChanged, UpdateAnnotation",
		"NewBaseStatefulReconciler",
		"Interface: Observe, Reconcile",
		"Dummy",
	},
	rows: []row{
		{"StatefulReconciler.UpdateStateAnnotation", "AnnotationUpdater.UpdateStateAnnotation",
			"optional: without it the reconciler writes the annotation, which is lost with the table; there it is in the cluster. " +
				"`StateStore` keeps it"},
		{"StateChangeOperations.ContextChanged", "StateChangeOperations.ContextChanged",
			"one call for each context that was tried and has to be cleaned up"},
		{"BaseStatefulReconciler.Reconcile", "BaseStatefulReconciler.Reconcile",
			"the same five steps, but what the process remembers counts before the annotation. A second one, with the suffix " +
				"`.epoch`, keeps the state of a deleted or copied row from being used"},
		{"logr.Logger", "", "loggers are `*slog.Logger`; nil discards"},
	},
	only: []string{
		"Configure, BaseStatefulReconciler.Remove",
		"Bound",
		"StateStore: LoadState, StoreState",
		"StateObserver",
		"Requeuer",
		"SetDiff, MapDiff, Entry",
		"object.Meta: Namespace, Name, Annotations, SetAnnotation",
	},
}
