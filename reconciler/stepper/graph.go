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
type Graph struct{ nodes []node }

// node is a Node with indices for its states. An index is none if there is no such edge.
type node struct {
	state                             State
	next                              []int32
	straight, failed, givenUp, finish int32
}

const none = -1

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
	b := builder{places: map[State]int32{}}
	b.place(nodes)
	b.connect(nodes)
	if len(b.errs) == 0 {
		// Reachability is defined only if all edges lead to known states.
		b.checkWays()
	}
	if len(b.errs) > 0 {
		return nil, fmt.Errorf("graph: %w", errors.Join(b.errs...))
	}
	return &b.graph, nil
}

// builder makes a graph and collects the mistakes.
type builder struct {
	graph  Graph
	places map[State]int32
	errs   []error
}

func (b *builder) wrong(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

func (b *builder) place(nodes []Node) {
	for i, n := range nodes {
		if n.State == "" {
			b.wrong("state %d has no name", i)
		}
		if _, twice := b.places[n.State]; twice {
			b.wrong("state %q is there twice", n.State)
		}
		b.places[n.State] = int32(i)
	}
	if _, ok := b.places[End]; !ok {
		b.wrong("there is no state %q", End)
	}
}

func (b *builder) connect(nodes []Node) {
	for _, n := range nodes {
		made := node{state: n.State, straight: none, failed: none, givenUp: none, finish: none}
		for i, to := range n.Next {
			place, ok := b.places[to]
			if !ok {
				b.wrong("state %q leads to %q, which is unknown", n.State, to)
			}
			if slices.Contains(n.Next[:i], to) {
				b.wrong("state %q leads to %q twice", n.State, to)
			}
			made.lead(to, place)
		}
		switch {
		case n.State == End && len(n.Next) > 0:
			b.wrong("state %q leads to %q", n.State, n.Next)
		case n.State != End && made.straight == none:
			b.wrong("state %q has no way straight on", n.State)
		}
		b.graph.nodes = append(b.graph.nodes, made)
	}
}

// lead adds an edge.
func (n *node) lead(to State, place int32) {
	n.next = append(n.next, place)
	switch to {
	case ErrorManager:
		n.failed = place
	case GiveupManager:
		n.givenUp = place
	case CRFinalizer:
		n.finish = place
	default:
		if n.straight == none {
			n.straight = place
		}
	}
}

func (b *builder) checkWays() {
	nodes := b.graph.nodes
	reached := b.graph.from(0)
	for i := range nodes {
		if !reached[i] {
			b.wrong("state %q is not reached from %q", nodes[i].state, nodes[0].state)
		}
		if !b.graph.from(int32(i))[b.places[End]] {
			b.wrong("there is no way from state %q to %q", nodes[i].state, End)
		}
	}
}

// from reports for each state whether it can be reached from start. start counts as reached.
func (g *Graph) from(start int32) []bool {
	reached := make([]bool, len(g.nodes))
	reached[start] = true
	for todo := []int32{start}; len(todo) > 0; {
		at := todo[0]
		todo = todo[1:]
		for _, next := range g.nodes[at].next {
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
	nodes := make([]Node, len(g.nodes))
	for i, n := range g.nodes {
		nodes[i].State = n.state
		for _, next := range n.next {
			nodes[i].Next = append(nodes[i].Next, g.nodes[next].state)
		}
	}
	return nodes
}
