// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package stepper reconciles the rows of a table in steps: a [Stepper] walks through the states of a reconciliation and
// calls a hook in each. The custom resource (CR) of an operator is a row here. A row that reconciles without an error has
// this path through [DefaultGraph]:
//
//	CRChecker > ObjectsGetter > Mutator > Updater > SuccessManager > End
//
// [Stepper.Run] says which state follows an error, a give-up, both, and CRChecker of a deleted row. A panic of the hook is
// an error, and ends the walk at once: ErrorManager is not entered. The hook adds what it did to the [Results], of which
// [Results.Outcome] makes the outcome at the end.
//
// [NewStepper] makes a Stepper, [NewStepperOn] one with a graph of [NewGraph]. [Configure] returns a configuration with the
// operations of an engine, for [reconciler.New] or, in a hive, [reconciler.RegisterConfig]: the loop has the retries, and
// its options apply. A [FreeStyle] is an engine with results but without states: it calls its hook once.
// docs/COMPATIBILITY.md compares the names with those of OKT.
//
// The deletion of a row is never given up, whatever the hook adds and whatever [reconciler.Settings].MaxRetries is: without
// finalizers, CRFinalizer runs for a deleted row until it succeeds. What was added before it does not count.
//
// Changes that the hook makes to engine.Object() are written with the outcome, even with one that does not change the
// status, such as a repeated requeue, failure or panic; those before a panic are written, too.
//
// The note of the operation in Explain and the journal is the path of states, that of a FreeStyle the list of its results.
package stepper
