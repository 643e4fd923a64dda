// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"errors"
	"fmt"
	"slices"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// Engine is a [Stepper] or a [FreeStyle].
type Engine[Obj any] interface {
	// operations returns operations that do as the engine does now, with engines of their own.
	operations() *operations[Obj]
}

// Configure returns a configuration with operations that do as an engine does now: with its hook,
// and with the graph and the logger of a [Stepper]. They are safe from any goroutine, for any
// [reconciler.Settings].Concurrency. The result is for [reconciler.New] or
// [reconciler.RegisterConfig]; its fields may be changed before.
//
// Clone, GetStatus and SetStatus of the given configuration are used by the operations, which write
// what a hook changes on its row whatever the outcome. Operations, BatchOperations and
// RoundOperations have to be nil. The operations prune if the hook does. If it does not, and Pruner
// and Sweeper are nil, pruning is off. The error names everything that is wrong.
func Configure[Obj comparable](cfg reconciler.Config[Obj], engine Engine[Obj]) (reconciler.Config[Obj], error) {
	var errs []error
	if engine == nil {
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
	if len(errs) > 0 {
		return cfg, fmt.Errorf("stepper: %w", errors.Join(errs...))
	}
	ops := engine.operations()
	if ops.hook == nil {
		return cfg, fmt.Errorf("stepper: the hook of the %T is nil", engine)
	}
	ops.compare = running.Comparer(cfg.Clone, cfg.GetStatus, cfg.SetStatus)
	cfg.Operations = ops
	if ops.pruner == nil && cfg.Pruner == nil && cfg.Sweeper == nil {
		// First, so that a program which asks for pruning is told that there is none.
		cfg.Options = slices.Concat([]reconciler.Option{reconciler.WithoutPruning()}, cfg.Options)
	}
	return cfg, nil
}
