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
		{"oktsm.LCGState", "State", adapted,
			"a string, not a number: your own states cannot collide with the standard ones, and print as their names"},
		{"CRFinalizer", "CRFinalizer", adapted,
			"a table has no finalizers: the walk of a deleted row enters this state until its deletion succeeds. A give-up in " +
				"`CRChecker` does not prevent that, and a give-up in `CRFinalizer` is retried; there both leave the resource behind"},
		{"ObjectGetter, Update, GiveUpManager, Start", "ObjectsGetter, Updater, GiveupManager, Stepper.Run, FreeStyle.Run", adapted,
			"other names in its documentation"},
		{"Stepper.DisplayPathOfStates", "Stepper.DisplayPathOfStates", adapted,
			"takes the `*slog.Logger` to log to. Explain and the journal have the path, too, and `PathOfStates` returns it"},
		{"FreeStyle.SetResults", "FreeStyle.SetResults", adapted,
			"`Stepper` has it, too. It empties the results, so that a reconciliation does not see those of another"},
		{"FreeStyleHook.ReconcileWithCR", "FreeStyleHook.ReconcileWithCR", adapted,
			"its argument is the engine, which has the row and the results; there it has no argument"},
		{"LCGraph, Build", "Graph: Nodes; NewGraph", adapted,
			"plain data, states and edges. The error of `NewGraph` names every mistake"},
		{"DefaultState", "Node.Next", adapted,
			"the first edge that is not for errors, give-ups or deletions is the default; `Stepper.GoTo` chooses another"},
		{"GiveUpError", "ErrGiveUpReconciliation", adapted,
			"for `errors.Is`. A give-up with an error is terminal: the row waits for a change. A give-up without one is no " +
				"failure: the row is Blocked, and is tried again after `Settings.BlockedRecheck` (a minute)"},
		{"Results, AddOp, AddOpSuccess, AddGiveupError, ErrorsCount, OpsCount, ConsolidatedError, ResetAllResults",
			"Results: AddOp, AddOpSuccess, AddGiveupError, ErrorsCount, OpsCount, ConsolidatedError, ResetAllResults", adapted,
			"methods of the results of one walk, which engines embed; there they belong to the reconciler. Resources and " +
				"operations are strings, delays are `time.Duration`. A delay of `AddOp` asks for another run; if there are errors, only the " +
				"delays of failed results count, and the shortest wins"},
		{"", "Configure, Engine", added, "the configuration for `reconciler.New` and `reconciler.RegisterConfig`"},
		{"", "NewStepperOn, StepperEngineHookFunc, FreeStyleHookFunc", added,
			"an engine with your own graph; functions as hooks"},
		{"", "Results: Outcome, All", added, "the outcome for the loop, and the list of every `Result`"},
		{"", "Stepper: GetState, GoTo, PathOfStates, Graph, Reconcile", added,
			"for hooks, and for the loop, which calls `Reconcile`"},
		{"", "Call: Context, Txn, Revision, Object, Deleted", added, "what an engine was called with"},
		{"", "Result, MaxSteps, OperationInfiniteLoop, OperationCRIsFinalizing, OperationUnknownEdge", added,
			"results that the engines add: a walk that does not reach `End`, for example, is given up"},
	},
}
