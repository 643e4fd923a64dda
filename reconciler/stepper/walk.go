// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// MaxSteps is the maximum number of states that a walk enters. A walk that has not reached End by
// then is given up: the graph or the hook loops.
const MaxSteps = 1000

// Run walks from the first state, CRChecker in [DefaultGraph], to End, and calls the hook in each
// state. The next state is the first in this list whose condition holds and to which the current
// state has an edge:
//   - CRFinalizer, if the row is being finalized, and there is a give-up or no error
//   - ErrorManager, if there is an error
//   - GiveupManager, if there is a give-up
//   - the state that the hook chose with [Stepper.GoTo]
//   - the straight-on state of the node: see [Node].Next
//
// Run adds to the results, and results that were there before count too: see
// [Results.ResetAllResults]. Results from before CRFinalizer do not count for the outcome, so that
// a give-up or a delay in CRChecker does not keep a row from being finalized.
func (s *Stepper[Obj]) Run() {
	s.path = s.path[:0]
	for state := s.graph.nodes[0].State; ; state = s.next() {
		s.path, s.chosen = append(s.path, state), ""
		if state == CRFinalizer {
			s.disregard()
		}
		if state != GiveupManager && state != End {
			s.hook.EnterInState(s)
		}
		if state == End {
			return
		}
		if len(s.path) == MaxSteps {
			s.AddGiveupError("", OperationInfiniteLoop, s.endless())
			return
		}
	}
}

// next returns the next state.
func (s *Stepper[Obj]) next() State {
	next := s.graph.next[s.GetState()]
	leads := func(to State) bool { return slices.Contains(next, to) }
	giveup, err := s.ConsolidatedError()
	switch {
	// A row that cannot be created can still be removed.
	case s.finalizing() && (giveup || err == nil) && leads(CRFinalizer):
		return CRFinalizer
	case err != nil && leads(ErrorManager):
		return ErrorManager
	case giveup && leads(GiveupManager):
		return GiveupManager
	case s.chosen != "":
		return s.chosen
	}
	return straight(next)
}

// GoTo makes state the next state instead of the straight-on one, if the hook adds no error and no
// give-up. It is called by the hook. It applies to the current step only, and the last call wins.
// If the graph has no edge to state, GoTo adds a give-up and returns its error.
func (s *Stepper[Obj]) GoTo(state State) error {
	if slices.Contains(s.graph.next[s.GetState()], state) {
		s.chosen = state
		return nil
	}
	return s.AddGiveupError("", OperationUnknownEdge, fmt.Errorf("state %q does not lead to %q", s.GetState(), state))
}

// endless returns the error of a walk that did not reach End within MaxSteps.
func (s *Stepper[Obj]) endless() error {
	const last = 6
	return fmt.Errorf("the walk did not come to %q: it entered %d states, the last of them %s",
		End, len(s.path), pathText(s.path[len(s.path)-last:]))
}

// PathOfStates returns the states that the last walk entered, as in "CRChecker > ErrorManager >
// End". It is empty before the first walk.
func (s *Stepper[Obj]) PathOfStates() string { return pathText(s.path) }

// DisplayPathOfStates logs the states that the last walk entered. It does nothing if log is nil.
func (s *Stepper[Obj]) DisplayPathOfStates(log *slog.Logger) {
	if log != nil {
		log.InfoContext(s.Context(), "path of states", "path", s.PathOfStates())
	}
}

func pathText(path []State) string {
	names := make([]string, len(path))
	for i, state := range path {
		names[i] = string(state)
	}
	return strings.Join(names, " > ")
}
