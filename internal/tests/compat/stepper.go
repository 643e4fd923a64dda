// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// stepperSystem maps the engines of OKT.
var stepperSystem = system{
	title: "A stepper engine: package reconciler/stepper",
	pkg:   "stepper",
	about: "An engine that walks through the states of a reconciliation, and one without states: see the " +
		"[package](../reconciler/stepper/doc.go). The custom resource (CR) is a row, and engines have its type as a parameter. " +
		"A hook asks the engine for the row, the state and the context.",
	same: []string{
		"CRChecker, ObjectsGetter, Mutator, Updater, ErrorManager, SuccessManager, GiveupManager, End",
		"Stepper: Run",
		"NewStepper",
		"StepperEngineHook: EnterInState",
		"FreeStyle: Run",
		"NewFreeStyle, FreeStyleHook",
	},
	rows: []row{
		{"oktsm.LCGState", "State", "a string, not a number: your own states cannot collide with the standard ones"},
		{"CRFinalizer", "CRFinalizer",
			"a table has no finalizers: the walk of a deleted row enters this state until its deletion succeeds, also after a " +
				"give-up here or in `CRChecker`; there both leave the resource behind"},
		{"ObjectGetter, Update, GiveUpManager, Start", "ObjectsGetter, Updater, GiveupManager, Stepper.Run, FreeStyle.Run",
			"other names in its documentation"},
		{"Stepper.DisplayPathOfStates", "Stepper.DisplayPathOfStates",
			"takes the `*slog.Logger`. Explain, the journal and `PathOfStates` have the path, too"},
		{"FreeStyle.SetResults", "FreeStyle.SetResults",
			"`Stepper` has it, too. It empties the results, so that a reconciliation does not see those of another"},
		{"FreeStyleHook.ReconcileWithCR", "FreeStyleHook.ReconcileWithCR",
			"gets the engine, which has the row and the results; there it has no argument"},
		{"LCGraph, Build", "Graph: Nodes; NewGraph", "states and edges as data. The error of `NewGraph` names every mistake"},
		{"DefaultState", "Node.Next",
			"the first edge that is not for errors, give-ups or deletions; `Stepper.GoTo` chooses another"},
		{"GiveUpError", "ErrGiveUpReconciliation",
			"for `errors.Is`. With an error it is terminal: the row waits for a change. Without one the row is Blocked, and tried " +
				"again after `Settings.BlockedRecheck` (a minute)"},
		{"Results, AddOp, AddOpSuccess, AddGiveupError, ErrorsCount, OpsCount, ConsolidatedError, ResetAllResults",
			"Results: AddOp, AddOpSuccess, AddGiveupError, ErrorsCount, OpsCount, ConsolidatedError, ResetAllResults",
			"methods of the results of one walk, which engines embed. Resources and operations are strings, delays are " +
				"`time.Duration`. A delay asks for another run; if there are errors, only those of failed results count, and the " +
				"shortest wins"},
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
