// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/statekeel/statekeel/internal/optional"
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
// Operations, BatchOperations and RoundOperations of cfg must be nil. The hook prunes if it
// implements [reconciler.Pruner], and Pruner and Lister are nil. The
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
	if err := optional.Check[reconciler.Pruner[Obj]](ops.hook, "Prune"); err != nil {
		return cfg, fmt.Errorf("stepper: the hook: %w", err)
	}
	ops.compare = running.Comparer(cfg.Clone, cfg.GetStatus, cfg.SetStatus)
	cfg.Operations = ops
	if cfg.Pruner == nil && cfg.Lister == nil {
		cfg.Pruner, _ = ops.hook.(reconciler.Pruner[Obj])
	}
	return cfg, nil
}
