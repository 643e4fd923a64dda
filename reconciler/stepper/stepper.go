// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"context"
	"fmt"

	"github.com/cilium/statedb"
)

// StepperEngineHook is called by a [Stepper] in each state.
//
// A hook that implements [reconciler.Pruner] also prunes.
type StepperEngineHook[Obj any] interface {
	// EnterInState is called in each state except GiveupManager and End. [Stepper.GetState] returns
	// the state. The hook adds what it did, and what failed, to the results of the engine; they
	// decide the next state. Each reconciliation has its own engine, whose calls come from one goroutine.
	// A reconciler with several workers calls the hook for several rows at once. The hook must not keep
	// the engine.
	EnterInState(engine *Stepper[Obj])
}

// StepperEngineHookFunc is a function that implements [StepperEngineHook].
type StepperEngineHookFunc[Obj any] func(engine *Stepper[Obj])

// EnterInState implements [StepperEngineHook].
func (f StepperEngineHookFunc[Obj]) EnterInState(engine *Stepper[Obj]) { f(engine) }

// Stepper is an engine that reconciles a row in steps: see the package. It is for one goroutine at
// a time. The operations of [Configure] use a copy for each reconciliation.
type Stepper[Obj any] struct {
	Call[Obj]

	hook  StepperEngineHook[Obj]
	graph *Graph

	// path has the states that the walk has entered.
	path []State
	// chosen is the next state if the hook called GoTo, else empty.
	chosen State
}

// NewStepper returns an engine that walks through [DefaultGraph]. The hook must not be nil.
func NewStepper[Obj any](hook StepperEngineHook[Obj]) *Stepper[Obj] {
	return NewStepperOn(DefaultGraph(), hook)
}

// NewStepperOn returns an engine that walks through another graph. Neither the graph nor the hook
// may be nil.
func NewStepperOn[Obj any](graph *Graph, hook StepperEngineHook[Obj]) *Stepper[Obj] {
	return &Stepper[Obj]{Call: Call[Obj]{Results: &Results{}}, hook: hook, graph: graph}
}

// Graph returns the graph that the engine walks through.
func (s *Stepper[Obj]) Graph() *Graph { return s.graph }

// GetState returns the state of the engine: during a call of the hook, the state that was entered. Before the first
// walk it is the first state, and after a walk the last one.
func (s *Stepper[Obj]) GetState() State {
	if len(s.path) == 0 {
		return s.graph.nodes[0].State
	}
	return s.path[len(s.path)-1]
}

// Reconcile walks for one row, as an operation of a reconciler does. It empties the results, notes
// the path of states, and returns [Results.Outcome]. deleted reports whether the row was deleted
// from the table; the walk then goes to CRFinalizer.
func (s *Stepper[Obj]) Reconcile(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error {
	s.begin(ctx, txn, revision, obj, deleted)
	return s.reconcile(s.Run, s.PathOfStates)
}

// another implements [Engine].
func (s *Stepper[Obj]) another() Engine[Obj] { return NewStepperOn(s.graph, s.hook) }

// check implements [Engine].
func (s *Stepper[Obj]) check() (hook any, err error) {
	if s.graph == nil {
		return nil, fmt.Errorf("the graph of the %T is nil", s)
	}
	return s.hook, nil
}
