// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package stepper reconciles the rows of a table in steps, on the loop of package reconciler. A state machine, the
// [Stepper], walks through the states of a reconciliation and calls a hook in each. The custom resource (CR) of an operator
// is a row here.
//
// The default graph, [DefaultGraph], has this path for a row that reconciles without an error:
//
//	CRChecker > ObjectsGetter > Mutator > Updater > SuccessManager > End
//
// The walk leaves it in these cases:
//
//   - After an error in any state, ErrorManager and End follow.
//   - After a give-up in any state, GiveupManager and End follow. If the give-up has an error, or there was another error,
//     ErrorManager comes before GiveupManager.
//   - For a deleted row, CRFinalizer and End follow CRChecker, even if CRChecker gives up. An error in CRChecker that is no
//     give-up leads to ErrorManager.
//   - A panic of the hook is an error, and ends the walk at once: ErrorManager is not entered.
//
// The hook reports what it did by adding to the [Results]. At the end of the walk [Results.Outcome] makes the outcome of
// the operation from them.
//
// [NewStepper] makes a Stepper, [NewStepperOn] one with a graph of [NewGraph]. [Configure] returns a configuration with the
// operations of an engine, for [reconciler.New] or, in a hive, [reconciler.RegisterConfig]: the loop has the retries, and
// its options apply. A [FreeStyle] is an engine with results but without states: it calls its hook once. The names are
// those of the stepper engine of OKT: docs/COMPATIBILITY.md compares them.
//
// # Deleted rows
//
// The deletion of a row is never given up, whatever the hook adds and whatever [reconciler.Settings].MaxRetries is. There
// are no finalizers: CRFinalizer runs for a deleted row until it succeeds. Neither a give-up nor a delay from before
// CRFinalizer counts for the outcome.
//
// # Rows and engines
//
// Changes that the hook makes to engine.Object() are written with the outcome. This includes an outcome that does not
// change the status, such as a repeated requeue, failure or panic. Of a hook that panics, the changes before the panic are
// written.
//
// The path of states is the note of the operation in Explain and the journal (see [reconciler.Note]). The note of a
// FreeStyle is the list of its results.
package stepper
