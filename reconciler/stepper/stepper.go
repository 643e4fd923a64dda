// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"context"
	"log/slog"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// StepperEngineHook is called by a [Stepper] at each step.
//
// A hook that has the method of [reconciler.Pruner] prunes, too.
type StepperEngineHook[Obj any] interface {
	// EnterInState is called in each state that is entered but GiveupManager and End; which
	// it is, [Stepper.GetState] says. What was done, and what failed, is to be added to the
	// results of the engine, which say what comes next. It is called from one goroutine for
	// each engine; a reconciler has several engines if it has several workers, and calls the
	// hook for several rows at once then. The engine must not be kept.
	EnterInState(engine *Stepper[Obj])
}

// StepperEngineHookFunc is a function as a hook.
type StepperEngineHookFunc[Obj any] func(engine *Stepper[Obj])

// EnterInState implements [StepperEngineHook].
func (f StepperEngineHookFunc[Obj]) EnterInState(engine *Stepper[Obj]) { f(engine) }

// Stepper is an engine that reconciles a row in steps; see the package. It is for one
// goroutine at a time. The operations of [Configure] make as many like it as are needed.
type Stepper[Obj any] struct {
	Call[Obj]

	hook  StepperEngineHook[Obj]
	graph *Graph
	log   *slog.Logger
	notes *notes

	own  Results
	at   int32
	path []int32
	// chosen is where the hook wants to go from here, or none.
	chosen int32
}

// NewStepper returns an engine that walks through [DefaultGraph] and calls the hook at each
// step. The hook must not be nil.
func NewStepper[Obj any](hook StepperEngineHook[Obj]) *Stepper[Obj] {
	return NewStepperOn(DefaultGraph(), hook)
}

// NewStepperOn is [NewStepper] for another graph, which must not be nil.
func NewStepperOn[Obj any](graph *Graph, hook StepperEngineHook[Obj]) *Stepper[Obj] {
	s := &Stepper[Obj]{hook: hook, graph: graph, notes: &notes{}, chosen: none}
	s.Results = &s.own
	return s
}

// another returns an engine like this one, which another goroutine can use.
func (s *Stepper[Obj]) another() *Stepper[Obj] {
	other := NewStepperOn(s.graph, s.hook)
	other.log, other.notes = s.log, s.notes
	return other
}

// SetLogger says where the engine logs to: give-ups, as errors if the reason is alarming, and
// the path of states at the level of debugging. nil, which it is at first, means nowhere.
func (s *Stepper[Obj]) SetLogger(log *slog.Logger) { s.log = log }

// Graph returns what the engine walks through.
func (s *Stepper[Obj]) Graph() *Graph { return s.graph }

// GetState returns the state that the engine is in, which is that of the hook's call.
func (s *Stepper[Obj]) GetState() State { return s.graph.nodes[s.at].state }

// Reconcile walks for one row, as an operation of a reconciler does: it begins with no
// results, notes the path of states, and returns [Results.Outcome]. deleted says whether the
// row was deleted from the table, which leads to CRFinalizer.
func (s *Stepper[Obj]) Reconcile(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error {
	s.begin(ctx, txn, revision, obj, deleted)
	// A hook that panics leaves its path behind, too.
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
