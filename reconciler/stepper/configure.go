// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// Engine is a [Stepper] or a [FreeStyle].
type Engine[Obj any] interface {
	// operations returns operations that behave as the engine does now, with engines of their own.
	operations() *operations[Obj]
}

// Configure returns a copy of cfg with operations that behave as the engine does now: they have its
// hook and, for a [Stepper], its graph and its logger. Later changes of the engine do not affect them.
// They are safe for any [reconciler.Settings].Concurrency. The result is for [reconciler.New] or
// [reconciler.RegisterConfig]; its fields may be changed before.
//
// Operations, BatchOperations and RoundOperations of cfg must be nil. The operations prune if the hook
// implements [reconciler.Pruner]. If it does not, and Pruner and Lister are nil, pruning is off. The
// operations use Clone, GetStatus and SetStatus of cfg to detect whether the hook changed its row; a
// changed row is written whatever the outcome. The error names the mistakes that were found.
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
	if s, walks := engine.(*Stepper[Obj]); walks && s.graph == nil {
		return cfg, fmt.Errorf("stepper: the graph of the %T is nil", engine)
	}
	ops := engine.operations()
	if running.IsNil(ops.hook) {
		return cfg, fmt.Errorf("stepper: the hook of the %T is nil", engine)
	}
	ops.compare = running.Comparer(cfg.Clone, cfg.GetStatus, cfg.SetStatus)
	cfg.Operations = ops
	if ops.pruner == nil && cfg.Pruner == nil && cfg.Lister == nil {
		// First, so that an option of the program that turns pruning on takes effect and Prune
		// reports the missing method.
		cfg.Options = slices.Concat([]reconciler.Option{reconciler.WithoutPruning()}, cfg.Options)
	}
	return cfg, nil
}
