// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
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
	s.path, s.at = s.path[:0], 0
	for {
		s.path, s.chosen = append(s.path, s.at), none
		s.enter()
		if s.GetState() == End {
			return
		}
		if len(s.path) == MaxSteps {
			s.AddGiveupError("", OperationInfiniteLoop, s.endless())
			return
		}
		s.at = s.next()
	}
}

func (s *Stepper[Obj]) enter() {
	state := s.GetState()
	if state == CRFinalizer {
		s.disregard()
	}
	switch {
	case state.hooked():
		s.hook.EnterInState(s)
	case s.log == nil:
	case state == GiveupManager:
		s.logGiveup()
	default:
		if s.log.Enabled(s.Context(), slog.LevelDebug) {
			s.log.DebugContext(s.Context(), "reconciled", "path", s.PathOfStates())
		}
	}
}

// logGiveup logs that the reconciliation was given up.
func (s *Stepper[Obj]) logGiveup() {
	if _, err := s.ConsolidatedError(); err != nil {
		s.log.ErrorContext(s.Context(), "reconciliation given up", "error", err)
		return
	}
	s.log.InfoContext(s.Context(), "reconciliation given up")
}

// next returns the next state.
func (s *Stepper[Obj]) next() int32 {
	n := &s.graph.nodes[s.at]
	giveup, err := s.ConsolidatedError()
	switch {
	// A row that cannot be created can still be removed.
	case n.finish != none && s.finalizing() && (giveup || err == nil):
		return n.finish
	case err != nil && n.failed != none:
		return n.failed
	case giveup && n.givenUp != none:
		return n.givenUp
	case s.chosen != none:
		return s.chosen
	}
	return n.straight
}

// GoTo makes state the next state instead of the straight-on one, if the hook adds no error and no
// give-up. It is called by the hook. It applies to the current step only, and the last call wins.
// If the graph has no edge to state, GoTo adds a give-up and returns its error.
func (s *Stepper[Obj]) GoTo(state State) error {
	for _, next := range s.graph.nodes[s.at].next {
		if s.graph.nodes[next].state == state {
			s.chosen = next
			return nil
		}
	}
	return s.AddGiveupError("", OperationUnknownEdge, fmt.Errorf("state %q does not lead to %q", s.GetState(), state))
}

// endless returns the error of a walk that did not reach End within MaxSteps.
func (s *Stepper[Obj]) endless() error {
	const last = 6
	return fmt.Errorf("the walk did not come to %q: it entered %d states, the last of them %s",
		End, len(s.path), pathText(s.graph, s.path[len(s.path)-last:]))
}

// PathOfStates returns the states that the last walk entered, as in "CRChecker > ErrorManager >
// End". It is empty before the first walk.
func (s *Stepper[Obj]) PathOfStates() string { return s.notes.text(s.graph, s.path) }

// DisplayPathOfStates logs the states that the last walk entered. It does nothing if log is nil.
func (s *Stepper[Obj]) DisplayPathOfStates(log *slog.Logger) {
	if log != nil {
		log.InfoContext(s.Context(), "path of states", "path", s.PathOfStates())
	}
}

func pathText(g *Graph, path []int32) string {
	var out strings.Builder
	for i, at := range path {
		if i > 0 {
			out.WriteString(" > ")
		}
		out.WriteString(string(g.nodes[at].state))
	}
	return out.String()
}

// notes caches the text of the last path, since most walks take the same path. It is safe for
// concurrent use.
type notes struct{ last atomic.Pointer[noted] }

type noted struct {
	path []int32
	text string
}

func (n *notes) text(g *Graph, path []int32) string {
	if last := n.last.Load(); last != nil && slices.Equal(last.path, path) {
		return last.text
	}
	text := pathText(g, path)
	n.last.Store(&noted{slices.Clone(path), text})
	return text
}
