// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// documented are the names in the documentation of each system, by the package here, written down by hand
// from that documentation. Those of the reconciler that can be imported are added by the test.
var documented = map[string][]string{
	"reconciler": statedbNames,
	"request":    requestNames,
	"stepper":    stepperNames,
	"stateful":   statefulNames,
	"managed":    managedNames,
}

// statedbNames are in the published documentation, but not in v0.9.4.
var statedbNames = []string{
	"NewStatusIndex", "WaitForReconciliation", "Params.Lifecycle", "Params.Jobs", "Params.Health",
	// In the text of the documentation.
	"Config.CloneObject", "GetObjectStatus", "SetObjectStatus", "RefreshInterval", "PruneInterval",
}

// requestNames are those of a reconciler of requests.
var requestNames = []string{
	"Reconciler", "Reconciler.Reconcile",
	"Request", "Request.NamespacedName",
	"Result", "Result.Requeue", "Result.RequeueAfter",
	// In the text of the documentation.
	"types.NamespacedName", "controller.Func", "controller.Request", "controller.Result", "Controller",
	// In later versions.
	"Result.Priority",
}

// stepperNames are those of a stepper engine.
var stepperNames = []string{
	"CRChecker", "CRFinalizer", "ObjectsGetter", "Mutator", "Updater",
	"ErrorManager", "SuccessManager", "GiveupManager", "End",
	"oktsm.LCGState",
	"FreeStyle", "NewFreeStyle", "FreeStyle.Run", "FreeStyle.SetResults",
	"FreeStyleHook", "FreeStyleHook.ReconcileWithCR",
	"Stepper", "NewStepper", "Stepper.DisplayPathOfStates", "Stepper.Run",
	"StepperEngineHook", "StepperEngineHook.EnterInState",
	// In the text of the documentation.
	"LCGraph", "Build", "Start", "DefaultState", "GiveUpError", "Results", "ObjectGetter", "Update", "GiveUpManager",
	// Functions that hooks call on the results.
	"AddOp", "AddOpSuccess", "AddGiveupError", "ErrorsCount", "OpsCount", "ConsolidatedError", "ResetAllResults",
}

// statefulNames are those of a stateful reconciler.
var statefulNames = []string{
	"BaseStatefulReconciler", "BaseStatefulReconciler.Logger", "NewBaseStatefulReconciler",
	"BaseStatefulReconciler.HasStateChanged", "BaseStatefulReconciler.Reconcile", "BaseStatefulReconciler.UpdateAnnotation",
	"Dummy",
	"Interface", "Interface.Observe", "Interface.Reconcile",
	"Object",
	"StateChangeOperations", "StateChangeOperations.ItemsToAdd", "StateChangeOperations.ItemsToRemove",
	"StateChangeOperations.ItemsToUpdate", "StateChangeOperations.ContextChanged", "StateChangeOperations.PreviousContext",
	"StatefulReconciler", "StatefulReconciler.GetStateAnnotationKey", "StatefulReconciler.ExtractCurrentState",
	"StatefulReconciler.CompareStates", "StatefulReconciler.ApplyOperations", "StatefulReconciler.UpdateStateAnnotation",
	"StatefulResource",
	// In the text of the documentation.
	"logr.Logger",
}
