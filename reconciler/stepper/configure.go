// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/optional"
	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// Engine is a [Stepper] or a [FreeStyle].
type Engine[Obj any] interface {
	// Reconcile reconciles one row, as an operation does: see [Stepper.Reconcile] and [FreeStyle.Reconcile].
	Reconcile(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error

	// another returns an engine that behaves as this one does now, with results of its own.
	another() Engine[Obj]
	// check returns the hook, or an error if something else is missing.
	check() (hook any, err error)
}

// Configure returns a copy of cfg with operations that behave as the engine does now: they have its
// hook and, for a [Stepper], its graph. Later changes of the engine do not affect them.
// They are safe for any [reconciler.Settings].Concurrency. The result is for [reconciler.New] or
// [reconciler.RegisterConfig]; its fields may be changed before.
//
// Operations, BatchOperations and RoundOperations of cfg must be nil. Clone, GetStatus and SetStatus are required: the
// operations use them to detect whether the hook changed its row, and a changed row is written whatever the outcome.
// Equal has to be false for a row that the hook finalizes with [OperationCRIsFinalizing]: the loop does not know that before
// the hook was called. The hook prunes if it implements [reconciler.Pruner], and Pruner and Lister are nil. The error names
// the mistakes that were found.
func Configure[Obj any](cfg reconciler.Config[Obj], engine Engine[Obj]) (reconciler.Config[Obj], error) {
	var errs []error
	if engine == nil || reflect.ValueOf(engine).IsNil() {
		errs = append(errs, errors.New("the engine is nil"))
	}
	set := func(is bool, field string, value any) {
		if is {
			errs = append(errs, fmt.Errorf("%s (%T) is set, which is the engine's to do", "Config."+field, value))
		}
	}
	set(cfg.Operations != nil, "Operations", cfg.Operations)
	set(cfg.BatchOperations != nil, "BatchOperations", cfg.BatchOperations)
	set(cfg.RoundOperations != nil, "RoundOperations", cfg.RoundOperations)
	errs = append(errs, running.CheckStatus(cfg.Clone != nil, cfg.SetStatus != nil, cfg.GetStatus != nil))
	if err := errors.Join(errs...); err != nil {
		return cfg, fmt.Errorf("stepper: %w", err)
	}
	hook, err := engine.check()
	if err == nil && running.IsNil(hook) {
		err = fmt.Errorf("the hook of the %T is nil", engine)
	}
	if err != nil {
		return cfg, fmt.Errorf("stepper: %w", err)
	}
	if err := optional.Check[reconciler.Pruner[Obj]](hook, "Prune"); err != nil {
		return cfg, fmt.Errorf("stepper: the hook: %w", err)
	}
	cfg.Operations = &operations[Obj]{engine.another(), running.Comparer(cfg.Clone, cfg.GetStatus, cfg.SetStatus)}
	if cfg.Pruner == nil && cfg.Lister == nil {
		cfg.Pruner, _ = hook.(reconciler.Pruner[Obj])
	}
	return cfg, nil
}

// operations are the operations of a reconciler. Each uses an engine of its own.
type operations[Obj any] struct {
	engine Engine[Obj]
	// compare tells the loop whether an update has changed its row.
	compare func(ctx context.Context, obj Obj)
}

// Update implements [reconciler.ObjectOperations]. An engine reconciles the row.
func (o *operations[Obj]) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error {
	// Deferred, so that changes from before a panic are written, even if the panic is no news.
	defer o.compare(ctx, obj)
	return o.engine.another().Reconcile(ctx, txn, revision, obj, false)
}

// Delete implements [reconciler.ObjectOperations]. An engine reconciles the deleted row; a [Stepper] goes
// to CRFinalizer.
func (o *operations[Obj]) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error {
	return o.engine.another().Reconcile(ctx, txn, revision, obj, true)
}
