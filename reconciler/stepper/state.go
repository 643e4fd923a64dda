// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

// State is the name of a state of a reconciliation.
type State string

// The states of [DefaultGraph]. ErrorManager, GiveupManager, CRFinalizer and End have the same
// meaning in any [Graph]. The others have no meaning there.
const (
	// CRChecker: check the row. It is the first state.
	CRChecker State = "CRChecker"
	// CRFinalizer: the row was deleted; remove its resources from the target.
	CRFinalizer State = "CRFinalizer"
	// ObjectsGetter: read the resources to work on.
	ObjectsGetter State = "ObjectsGetter"
	// Mutator: change them to the desired state, in memory.
	Mutator State = "Mutator"
	// Updater: create or update them in the target.
	Updater State = "Updater"
	// ErrorManager follows any state that added an error.
	ErrorManager State = "ErrorManager"
	// SuccessManager follows Updater if there was no error.
	SuccessManager State = "SuccessManager"
	// GiveupManager follows any state that gave up, because nothing can be done for now or because
	// of an error that a retry does not fix. The hook is not called in it.
	GiveupManager State = "GiveupManager"
	// End ends the walk. The hook is not called in it.
	End State = "End"
)
