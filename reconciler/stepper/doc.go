// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package stepper reconciles the rows of a table in steps, on the loop of package reconciler. A state
// machine, the [Stepper], walks through the states of a reconciliation and calls a hook in each. The
// custom resource (CR) of an operator is a row here.
//
// The default graph, [DefaultGraph], has this path for a row that reconciles without an error:
//
//	CRChecker > ObjectsGetter > Mutator > Updater > SuccessManager > End
//
// The walk leaves it in these cases:
//
//   - After an error in any state, ErrorManager and End follow.
//   - After a give-up in any state, GiveupManager and End follow. If the give-up has an error, or there
//     was another error, ErrorManager comes before GiveupManager.
//   - For a deleted row, CRFinalizer and End follow CRChecker, even if CRChecker gives up. An error in
//     CRChecker that is no give-up leads to ErrorManager.
//
// The hook reports what it did by adding to the [Results]: [Results.AddOpSuccess], [Results.AddOp] with
// an error, [Results.AddGiveupError]. At the end of the walk the results become the outcome of the
// operation (see [Results.Outcome]).
//
// [NewStepper] makes a Stepper, [NewGraph] another graph for it. [Configure] returns a configuration with
// the operations of an engine, for [reconciler.New] or, in a hive, [reconciler.RegisterConfig]. So
// retries, workers, breakers, pauses, Explain, metrics and the journal are those of the loop, and its
// options apply.
//
// A [FreeStyle] is an engine with results but without states: it calls its hook once.
//
// # Coming from a stepper engine of an operator
//
// The names are those of the stepper engine of OKT.
//
//	there                                   here
//	-----                                   ----
//	the custom resource (CR)                a row; engine.Object()
//	a finalizer on the CR                   none: CRFinalizer is run for a deleted row until it succeeds
//	the states, numbers of oktsm.LCGState   State, strings with the same names
//	EnterInState(engine)                    the same; the engine knows the type of the row
//	ReconcileWithCR() of a free style       the same, with the engine as its argument
//	AddOp, AddOpSuccess, AddGiveupError,    the same, on the engine or its Results
//	  counts
//	delays, resources                       time.Duration, and strings that name the resources
//	DisplayPathOfStates() in the log        the same; the path is also in Explain and the journal
//	counts and lists of operations          OpsCount, ErrorsCount and All of the results
//	  in the log
//	the graph (LCGraph) and its Build()     NewGraph(nodes...), whose error names every mistake
//
// # Outcomes
//
//   - Without an error, the shortest delay of a result runs the row again after it.
//   - With errors, the row is retried after the shortest delay of the failed results, or with backoff if
//     they have no delay.
//   - A give-up with an error waits for a change of the row. Its status is Error.
//   - A give-up without any error is no failure. Its status is Blocked, with the operations that gave up
//     as the reason. The row runs again when it changes, or after [reconciler.Settings].BlockedRecheck.
//   - The error of a result may be an outcome of the loop, such as [reconciler.Blocked].
//   - A panic of the hook is an error. It ends the walk at once: ErrorManager is not entered.
//
// # Deleted rows
//
//   - The deletion of a row is never given up, whatever the hook adds and whatever
//     [reconciler.Settings].MaxRetries is: a give-up is retried with backoff, and one without an error
//     waits for the recheck.
//   - Results from before CRFinalizer do not count for the outcome: neither a give-up nor a delay.
//   - A delay in CRFinalizer without an error means that the deletion is still going on.
//
// # Rows and engines
//
//   - Changes that the hook makes to engine.Object() are written with the outcome. This includes an
//     outcome that does not change the status, such as a repeated requeue, failure or panic. Of a hook that
//     panics, the changes before the panic are written.
//   - Each reconciliation has its own engine. With several workers the hook is called from several goroutines.
//   - [Call.SetResults] empties the results that it is given. Reconciliations of several workers cannot share
//     one Results.
//   - The path of states is the note of the operation in Explain and the journal (see [reconciler.Note]).
//     The note of a FreeStyle is the list of its results.
package stepper
