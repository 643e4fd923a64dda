// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/statekeel/statekeel/internal/running"
)

// MaxSteps is how many states a walk enters at most. One that is not at End by then is given
// up: the graph must be wrong, or the hook goes in circles.
const MaxSteps = 1000

// Run walks from the first state, CRChecker in [DefaultGraph], until End, and calls the hook
// in each state on the way. It goes where the first of these that holds, and to which the
// state has an edge, leads to: finalizing to CRFinalizer, unless there is an error without a
// give-up; an error to ErrorManager, a give-up to GiveupManager, [Stepper.GoTo] to what the hook
// chose, and else straight on. What happened is in the results, to which those count that were
// there before: see [Results.ResetAllResults]. Once CRFinalizer is entered, what happened before
// does not count for the outcome: neither a give-up nor a delay of CRChecker keeps a row from
// being finalized.
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
		running.Deletion(s.Context())
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

// logGiveup says that the reconciliation is given up.
func (s *Stepper[Obj]) logGiveup() {
	if _, err := s.ConsolidatedError(); err != nil {
		s.log.ErrorContext(s.Context(), "reconciliation given up", "error", err)
		return
	}
	s.log.InfoContext(s.Context(), "reconciliation given up")
}

// next returns the state to enter after this one.
func (s *Stepper[Obj]) next() int32 {
	n := &s.graph.nodes[s.at]
	giveup, err := s.ConsolidatedError()
	switch {
	// What cannot be made can be removed all the same.
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

// finalizing reports whether there is to be nothing left of the row: also of a deleted one of
// which the hook has reset the results.
func (s *Stepper[Obj]) finalizing() bool {
	return s.deleted || s.OpsCount(OperationCRIsFinalizing) > 0
}

// GoTo makes the walk go to a state from here in place of straight on, if the hook adds no
// error and no give-up. It is to be called by the hook, and counts for this step only; the
// last call counts. If the graph has no edge from here to there, that is given up, and the
// error returned.
func (s *Stepper[Obj]) GoTo(state State) error {
	for _, next := range s.graph.nodes[s.at].next {
		if s.graph.nodes[next].state == state {
			s.chosen = next
			return nil
		}
	}
	return s.AddGiveupError("", OperationUnknownEdge, fmt.Errorf("state %q does not lead to %q", s.GetState(), state))
}

// endless returns what there is to say of a walk that does not end.
func (s *Stepper[Obj]) endless() error {
	const last = 6
	return fmt.Errorf("the walk did not come to %q: it entered %d states, the last of them %s",
		End, len(s.path), pathText(s.graph, s.path[len(s.path)-last:]))
}

// PathOfStates returns the states that the last walk has entered, as in "CRChecker >
// ErrorManager > End". It is empty if there was no walk.
func (s *Stepper[Obj]) PathOfStates() string { return s.notes.text(s.graph, s.path) }

// DisplayPathOfStates logs the states that the last walk has entered. nil means nowhere.
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

// notes have the text of the last path: mostly all go the same way. Safe from any goroutine.
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
