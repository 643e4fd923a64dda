// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

// startStepper starts Statekeel with operations that walk through the states of a stepper. Walks have no
// batches.
func startStepper(o Options) (System, error) {
	d := statekeel
	d.registerPlain = registerStepper[reconciler.Status]
	d.registerSet = registerStepper[reconciler.StatusSet]
	return d.start(o, statekeelVariant{})
}

func registerStepper[S any](rt runtime, r registration[S, reconciler.Status], options []reconciler.Option) error {
	hook := walk[S]{r.ops.target}
	cfg, err := stepper.Configure(reconciler.Config[*object[S]]{
		Table: r.table, Clone: (*object[S]).clone, SetStatus: r.setStatus, GetStatus: r.getStatus, Options: options,
	}, stepper.NewStepper[*object[S]](hook))
	if err != nil {
		return err
	}
	_, err = reconciler.RegisterConfig(rt.params(), cfg)
	return err
}

// walk does in the states of a stepper what a bare operation does: it calls the target in one of them, and
// returns its error. It also adds results for the steps before.
type walk[S any] struct{ target *Target }

func (w walk[S]) EnterInState(engine *stepper.Stepper[*object[S]]) {
	switch engine.GetState() {
	case stepper.Mutator:
		engine.AddOpSuccess("row", "mutate")
	case stepper.Updater:
		_ = engine.AddOp("row", "update", w.target.Update(engine.Object().id), 0)
	case stepper.CRFinalizer:
		_ = engine.AddOp("row", "delete", w.target.Delete(engine.Object().id), 0)
	}
}
