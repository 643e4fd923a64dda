// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// stepperSystem maps the engines of OKT.
var stepperSystem = system{
	title: "A stepper engine: package reconciler/stepper",
	pkg:   "stepper",
	about: "An [engine](../reconciler/stepper/doc.go) that walks through the states of a reconciliation, and one without " +
		"states. The custom resource (CR) is a row, whose type is a parameter of engines. A hook asks the engine for the row, the " +
		"state and the context.",
	same: []string{
		"CRChecker, ObjectsGetter, Mutator, Updater, ErrorManager, SuccessManager, GiveupManager, End",
		"Stepper: Run",
		"NewStepper",
		"StepperEngineHook: EnterInState",
		"FreeStyle: Run",
		"NewFreeStyle, FreeStyleHook",
	},
	rows: []row{
		{"oktsm.LCGState", "State", "a string: your own states cannot collide with the standard ones"},
		{"CRFinalizer", "CRFinalizer",
			"the walk of a deleted row enters this state until its deletion succeeds, also after a give-up here or in `CRChecker`; " +
				"there both leave the resource behind"},
		{"ObjectGetter, Update, GiveUpManager, Start", "ObjectsGetter, Updater, GiveupManager, Stepper.Run, FreeStyle.Run",
			"names in its documentation"},
		{"Stepper.DisplayPathOfStates", "Stepper.DisplayPathOfStates",
			"takes the `*slog.Logger`"},
		{"FreeStyle.SetResults", "FreeStyle.SetResults",
			"empties the results first. `Stepper` has it, too"},
		{"FreeStyleHook.ReconcileWithCR", "FreeStyleHook.ReconcileWithCR",
			"gets the engine; there it has no argument"},
		{"LCGraph, Build", "Graph: Nodes; NewGraph", "states and edges as data"},
		{"DefaultState", "Node.Next",
			"the first edge that is not for errors, give-ups or deletions; `Stepper.GoTo` chooses another"},
		{"GiveUpError", "ErrGiveUpReconciliation",
			"for `errors.Is`. With an error it is terminal. Without one the row is Blocked, and tried again after " +
				"`Settings.BlockedRecheck` (a minute)"},
		{"Results, AddOp, AddOpSuccess, AddGiveupError, ErrorsCount, OpsCount, ConsolidatedError, ResetAllResults",
			"Results: AddOp, AddOpSuccess, AddGiveupError, ErrorsCount, OpsCount, ConsolidatedError, ResetAllResults",
			"methods of the results of one walk, which engines embed. Resources and operations are strings. A `time.Duration` asks " +
				"for another run; if there are errors, only those of failed results count, and the shortest wins"},
	},
	only: []string{
		"Configure, Engine",
		"NewStepperOn, StepperEngineHookFunc, FreeStyleHookFunc",
		"Results: Outcome, All",
		"Stepper: GetState, GoTo, PathOfStates, Graph, Reconcile",
		"Call: Context, Txn, Revision, Object, Deleted",
		"Result, MaxSteps, OperationInfiniteLoop, OperationCRIsFinalizing, OperationUnknownEdge",
	},
}
