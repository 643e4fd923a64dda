// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"errors"
	"fmt"
	"slices"
)

// Node is a state of a graph with its edges.
type Node struct {
	State State
	// Next are the states that may follow. The first that is not ErrorManager, GiveupManager or
	// CRFinalizer is the straight-on state, which follows if nothing else applies. An error leads
	// to ErrorManager only if Next has it. The same holds for GiveupManager and CRFinalizer.
	Next []State
}

// Graph is the graph that a [Stepper] walks through. It is immutable and may be shared.
type Graph struct {
	nodes []Node
	// next has Node.Next by state.
	next map[State][]State
}

// A test checks that the default graph is valid.
var defaultGraph, _ = NewGraph(
	Node{CRChecker, []State{ObjectsGetter, CRFinalizer, ErrorManager, GiveupManager}},
	Node{CRFinalizer, []State{End, ErrorManager, GiveupManager}},
	Node{ObjectsGetter, []State{Mutator, ErrorManager, GiveupManager}},
	Node{Mutator, []State{Updater, ErrorManager, GiveupManager}},
	Node{Updater, []State{SuccessManager, ErrorManager, GiveupManager}},
	Node{ErrorManager, []State{End, GiveupManager}},
	Node{SuccessManager, []State{End, ErrorManager, GiveupManager}},
	Node{GiveupManager, []State{End}},
	Node{End, nil},
)

// DefaultGraph returns the graph of [NewStepper].
func DefaultGraph() *Graph { return defaultGraph }

// NewGraph returns a graph. A walk begins in the first of the nodes. The error names every mistake:
//   - a state without a name, or with the name of another
//   - an edge to an unknown state, or the same edge twice
//   - a missing End, or an End with an edge
//   - a state without a straight-on state
//   - a state that cannot be reached from the first, or from which End cannot be reached
func NewGraph(nodes ...Node) (*Graph, error) {
	g := &Graph{next: map[State][]State{}}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i, n := range nodes {
		if n.State == "" {
			wrong("state %d has no name", i)
		}
		if g.has(n.State) {
			wrong("state %q is there twice", n.State)
		}
		n.Next = slices.Clone(n.Next)
		g.nodes, g.next[n.State] = append(g.nodes, n), n.Next
	}
	if !g.has(End) {
		wrong("there is no state %q", End)
	}
	for _, n := range g.nodes {
		for i, to := range n.Next {
			if !g.has(to) {
				wrong("state %q leads to %q, which is unknown", n.State, to)
			}
			if slices.Contains(n.Next[:i], to) {
				wrong("state %q leads to %q twice", n.State, to)
			}
		}
		switch {
		case n.State == End && len(n.Next) > 0:
			wrong("state %q leads to %q", n.State, n.Next)
		case n.State != End && straight(n.Next) == "":
			wrong("state %q has no way straight on", n.State)
		}
	}
	// What can be reached is defined only if all edges lead to known states.
	if len(errs) == 0 {
		reached := g.from(nodes[0].State)
		for _, n := range nodes {
			if !reached[n.State] {
				wrong("state %q is not reached from %q", n.State, nodes[0].State)
			}
			if !g.from(n.State)[End] {
				wrong("there is no way from state %q to %q", n.State, End)
			}
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("graph: %w", errors.Join(errs...))
	}
	return g, nil
}

func (g *Graph) has(s State) bool {
	_, ok := g.next[s]
	return ok
}

// straight returns the straight-on state of the states that may follow; empty if there is none.
func straight(next []State) State {
	for _, s := range next {
		if s != ErrorManager && s != GiveupManager && s != CRFinalizer {
			return s
		}
	}
	return ""
}

// from returns the states that can be reached from start, with start.
func (g *Graph) from(start State) map[State]bool {
	reached := map[State]bool{start: true}
	for todo := []State{start}; len(todo) > 0; todo = todo[1:] {
		for _, next := range g.next[todo[0]] {
			if !reached[next] {
				reached[next] = true
				todo = append(todo, next)
			}
		}
	}
	return reached
}

// Nodes returns the states and their edges, the first state first.
func (g *Graph) Nodes() []Node {
	nodes := slices.Clone(g.nodes)
	for i := range nodes {
		nodes[i].Next = slices.Clone(nodes[i].Next)
	}
	return nodes
}
