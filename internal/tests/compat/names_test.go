// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// section is a part of the page: the names of one reconciler that programs come from.
type section struct {
	// title is that of the section in the page.
	title string
	// adapter is the package whose tests use what the section names here; empty where it
	// is for another test to say, which is that of internal/tests/dropin.
	adapter string
	// names are all that the documentation of that reconciler has, its text included.
	names []string
}

var sections = []section{
	// Those of the package itself are added by the test, from the package.
	{title: "statedb/reconciler", names: statedbPage},
	{title: "Controllers and requests: reconciler/request", adapter: "request", names: requestPage},
	{title: "A stepper engine: reconciler/stepper", adapter: "stepper", names: stepperPage},
	{title: "Stateful reconcilers: reconciler/stateful", adapter: "stateful", names: statefulPage},
	{title: "Managed resources: reconciler/managed", adapter: "managed", names: managedPage},
}

// statedbPage are the names that the published documentation has and v0.8.3 has not.
var statedbPage = []string{
	"NewStatusIndex", "WaitForReconciliation", "Params.Lifecycle", "Params.Jobs", "Params.Health",
	// In its text.
	"Config.CloneObject", "GetObjectStatus", "SetObjectStatus", "RefreshInterval", "PruneInterval",
}

// requestPage has the names of a controller's requests.
var requestPage = []string{
	"Reconciler", "Reconciler.Reconcile",
	"Request", "Request.NamespacedName",
	"Result", "Result.Requeue", "Result.RequeueAfter",
	// In its text.
	"types.NamespacedName", "controller.Func", "controller.Request", "controller.Result", "Controller",
	// In later versions of it.
	"Result.Priority",
}

// stepperPage has the names of a stepper engine.
var stepperPage = []string{
	"CRChecker", "CRFinalizer", "ObjectsGetter", "Mutator", "Updater",
	"ErrorManager", "SuccessManager", "GiveupManager", "End",
	"oktsm.LCGState",
	"FreeStyle", "NewFreeStyle", "FreeStyle.Run", "FreeStyle.SetResults",
	"FreeStyleHook", "FreeStyleHook.ReconcileWithCR",
	"Stepper", "NewStepper", "Stepper.DisplayPathOfStates", "Stepper.Run",
	"StepperEngineHook", "StepperEngineHook.EnterInState",
	// In its text.
	"LCGraph", "Build", "Start", "DefaultState", "GiveUpError", "Results", "ObjectGetter", "Update", "GiveUpManager",
	// What a hook calls on the results.
	"AddOp", "AddOpSuccess", "AddGiveupError", "ErrorsCount", "OpsCount", "ConsolidatedError", "ResetAllResults",
}

// statefulPage has the names of a stateful reconciler.
var statefulPage = []string{
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
	// In its text.
	"logr.Logger",
}
