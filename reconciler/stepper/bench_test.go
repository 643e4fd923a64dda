// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"context"
	"iter"
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

// bare are operations that do nothing.
type bare struct{}

func (bare) Update(context.Context, statedb.ReadTxn, statedb.Revision, *row) error { return nil }
func (bare) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *row) error { return nil }
func (bare) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*row, statedb.Revision]) error {
	return nil
}

// succeeds is a hook that adds a result in two of its states.
func succeeds(e *stepper.Stepper[*row]) {
	if s := e.GetState(); s == stepper.Mutator || s == stepper.Updater {
		e.AddOpSuccess("", "done")
	}
}

func walks(tb testing.TB) reconciler.Operations[*row] {
	return operationsOf(tb, stepper.NewStepper(stepper.StepperEngineHookFunc[*row](succeeds)))
}

// BenchmarkOperation measures the cost of a walk without a loop.
func BenchmarkOperation(b *testing.B) {
	ctx, r := context.Background(), &row{ID: 1}
	for name, ops := range map[string]reconciler.Operations[*row]{
		"bare": bare{}, "stepper": walks(b),
		"freestyle": operationsOf(b, stepper.NewFreeStyle(stepper.FreeStyleHookFunc[*row](func(*stepper.FreeStyle[*row]) {}))),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = ops.Update(ctx, nil, 1, r)
			}
		})
	}
}

// A walk on the straight path does not allocate once its path is cached.
func TestWalksAllocateNothing(t *testing.T) {
	engine := stepper.NewStepper(stepper.StepperEngineHookFunc[*row](succeeds))
	ctx, r := t.Context(), &row{ID: 1}
	walk := func() {
		if err := engine.Reconcile(ctx, nil, 1, r, false); err != nil {
			t.Error(err)
		}
	}
	walk()
	require.Zero(t, testing.AllocsPerRun(1000, walk))
}
