// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

// State is the name of a step of a reconciliation.
type State string

// The states of [DefaultGraph]. In a [Graph] of other states, ErrorManager, GiveupManager,
// CRFinalizer and End mean the same, and the rest are names like any other.
const (
	// CRChecker: check the row. It is the entry point of a reconciliation.
	CRChecker State = "CRChecker"
	// CRFinalizer: the row was deleted; clean up what it had in the target.
	CRFinalizer State = "CRFinalizer"
	// ObjectsGetter: find out what there is to work on.
	ObjectsGetter State = "ObjectsGetter"
	// Mutator: change it to what is wanted, in memory.
	Mutator State = "Mutator"
	// Updater: create or update it in the target.
	Updater State = "Updater"
	// ErrorManager is reached after any state that added an error.
	ErrorManager State = "ErrorManager"
	// SuccessManager is reached after Updater, if there was no error.
	SuccessManager State = "SuccessManager"
	// GiveupManager is reached after any state that gave up: because nothing can be done for
	// the moment, or because of an error that trying again does not mend. The hook is not
	// called in it.
	GiveupManager State = "GiveupManager"
	// End is the end of the walk. The hook is not called in it.
	End State = "End"
)

// leadsAway reports whether a state is only entered for a reason, and not straight on.
func (s State) leadsAway() bool {
	return s == ErrorManager || s == GiveupManager || s == CRFinalizer
}

// hooked reports whether the hook is called in the state.
func (s State) hooked() bool { return s != GiveupManager && s != End }
