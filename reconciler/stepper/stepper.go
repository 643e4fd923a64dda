// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"context"
	"log/slog"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// StepperEngineHook is called by a [Stepper] in each state.
//
// A hook that implements [reconciler.Pruner] also prunes.
type StepperEngineHook[Obj any] interface {
	// EnterInState is called in each state except GiveupManager and End. [Stepper.GetState] returns
	// the state. The hook adds what it did, and what failed, to the results of the engine; they
	// decide the next state. The calls of one engine come from one goroutine. A reconciler with
	// several workers has several engines, and then calls the hook for several rows at once. The
	// hook must not keep the engine.
	EnterInState(engine *Stepper[Obj])
}

// StepperEngineHookFunc is a function that implements [StepperEngineHook].
type StepperEngineHookFunc[Obj any] func(engine *Stepper[Obj])

// EnterInState implements [StepperEngineHook].
func (f StepperEngineHookFunc[Obj]) EnterInState(engine *Stepper[Obj]) { f(engine) }

// Stepper is an engine that reconciles a row in steps: see the package. It is for one goroutine at
// a time. The operations of [Configure] make as many copies as they need.
type Stepper[Obj any] struct {
	Call[Obj]

	hook  StepperEngineHook[Obj]
	graph *Graph
	log   *slog.Logger
	notes *notes

	own  Results
	at   int32
	path []int32
	// chosen is the next state if the hook called GoTo, else none.
	chosen int32
}

// NewStepper returns an engine that walks through [DefaultGraph]. The hook must not be nil.
func NewStepper[Obj any](hook StepperEngineHook[Obj]) *Stepper[Obj] {
	return NewStepperOn(DefaultGraph(), hook)
}

// NewStepperOn returns an engine that walks through another graph. Neither the graph nor the hook
// may be nil.
func NewStepperOn[Obj any](graph *Graph, hook StepperEngineHook[Obj]) *Stepper[Obj] {
	s := &Stepper[Obj]{hook: hook, graph: graph, notes: &notes{}, chosen: none}
	s.Results = &s.own
	return s
}

// another returns a copy of the engine for another goroutine.
func (s *Stepper[Obj]) another() *Stepper[Obj] {
	other := NewStepperOn(s.graph, s.hook)
	other.log, other.notes = s.log, s.notes
	return other
}

// SetLogger sets the logger of the engine. It logs give-ups, as errors if they have an error and
// else as information, and the path of states at debug level. The records do not name the row: a
// hook that needs the name in the log must log itself. nil, the default, turns logging off.
func (s *Stepper[Obj]) SetLogger(log *slog.Logger) { s.log = log }

// Graph returns the graph that the engine walks through.
func (s *Stepper[Obj]) Graph() *Graph { return s.graph }

// GetState returns the state of the engine: during a call of the hook, the state that was entered.
func (s *Stepper[Obj]) GetState() State { return s.graph.nodes[s.at].state }

// Reconcile walks for one row, as an operation of a reconciler does. It empties the results, notes
// the path of states, and returns [Results.Outcome]. deleted reports whether the row was deleted
// from the table; the walk then goes to CRFinalizer.
func (s *Stepper[Obj]) Reconcile(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error {
	s.begin(ctx, txn, revision, obj, deleted)
	// Deferred, so that the path is noted after a panic too.
	defer s.note(ctx)
	defer s.markDeletion()
	s.Run()
	return s.Outcome()
}

func (s *Stepper[Obj]) note(ctx context.Context) {
	reconciler.Note(ctx, s.notes.text(s.graph, s.path))
}

// release implements engine.
func (s *Stepper[Obj]) release() { s.forget(&s.own) }

// operations implements [Engine].
func (s *Stepper[Obj]) operations() *operations[Obj] {
	like := s.another()
	return newOperations[Obj](s.hook, like.another)
}
