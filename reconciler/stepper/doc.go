// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package stepper reconciles the rows of a table in steps: a state machine walks through the
// states of a reconciliation, and calls a hook in each. It is for those who come from a
// stepper engine for operators; the custom resource (CR) of such an operator is a row here.
//
// The way straight on is
//
//	CRChecker > ObjectsGetter > Mutator > Updater > SuccessManager > End
//
// and these lead away from it:
//
//   - An error, in any state, leads to ErrorManager, and from there to End.
//   - A give-up, in any state, leads to GiveupManager, and from there to End; if there was
//     an error too, by ErrorManager.
//   - A row that was deleted leads from CRChecker to CRFinalizer, and from there to End.
//
// The hook says what happened by adding to the [Results]: [Results.AddOpSuccess],
// [Results.AddOp] with an error, [Results.AddGiveupError]. They are the outcome of the
// operation for the loop in the end, see [Results.Outcome]: what failed is retried, what was
// given up is not until the row changes. The states that were entered are in Explain and the
// journal, as [reconciler.Note].
//
// There are no finalizers in a table: a deleted row is handed to the hook until its deletion
// succeeds, which does the same.
//
// Make a [Stepper] with [NewStepper], a configuration of it with [Configure], and a reconciler of
// that with [reconciler.New] or [reconciler.RegisterConfig]. A [Graph] of other states and edges is
// made with [NewGraph]. [FreeStyle] is for those who want the results, but no states.
package stepper
