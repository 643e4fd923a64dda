// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// statefulSystem maps a stateful reconciler, as a messaging operator has it.
var statefulSystem = system{
	title: "Stateful reconcilers: package reconciler/stateful",
	pkg:   "stateful",
	about: "A reconciler that compares the desired state with the state applied last, which is in an annotation: see the " +
		"[package](../reconciler/stateful/doc.go). `StatefulReconciler[T, State, Item]` has type parameters for the row, its " +
		"state and the items of the state; a zero `State` means nothing. Rows embed `object.Meta`, which has the annotations.",
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
		{"StatefulReconciler.UpdateStateAnnotation", "AnnotationUpdater.UpdateStateAnnotation", adapted,
			"an optional interface: without it the reconciler writes the annotation. The annotation is lost with the table; " +
				"there it is in the cluster. Implement `StateStore` to keep it"},
		{"StateChangeOperations.ContextChanged", "StateChangeOperations.ContextChanged", adapted,
			"`ApplyOperations` is called once for each context that was tried and has to be cleaned up"},
		{"BaseStatefulReconciler.Reconcile", "BaseStatefulReconciler.Reconcile", adapted,
			"the same five steps. What the process remembers counts before the annotation. A second annotation, with the suffix " +
				"`.epoch`, prevents that the state of a deleted or copied row is used; there it is used"},
		{"logr.Logger", "", leftOut, "loggers are `*slog.Logger`, as in the loop; nil discards"},
		{"", "Configure, BaseStatefulReconciler.Remove", added,
			"the configuration for `reconciler.New` and `reconciler.RegisterConfig`. The deletion of a row removes what was " +
				"applied last"},
		{"", "Bound", added, "operations of a table whose rows have an `Interface` each"},
		{"", "StateStore: LoadState, StoreState", added,
			"keeps the states outside of the table, which a restart empties"},
		{"", "StateObserver", added, "adds the observed state to the comparison, against drift"},
		{"", "Requeuer", added,
			"asks for another run after a success. An error of `ApplyOperations`, even `reconciler.Requeue`, leaves the state as it was"},
		{"", "SetDiff, MapDiff, Entry", added, "ready-made `CompareStates`, to be embedded"},
		{"", "object.Meta: Namespace, Name, Annotations, SetAnnotation", added, "the metadata of a row"},
	},
}
