// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// Engine is a [Stepper] or a [FreeStyle]: what makes operations for a reconciler.
type Engine[Obj any] interface {
	// Operations returns operations that do as the engine does now.
	Operations() *Operations[Obj]
}

// New returns a reconciler whose operations are those of an engine. It is [reconciler.New]
// otherwise; the configuration is to have no operations. If the hook does not prune, and
// nothing in the configuration does, pruning is off. The error names everything that is
// wrong.
func New[Obj comparable](cfg reconciler.Config[Obj], engine Engine[Obj]) (*reconciler.Loop[Obj], error) {
	cfg, err := configured(cfg, engine)
	if err != nil {
		return nil, err
	}
	return reconciler.New(cfg)
}

// RegisterConfig is [New] for a hive: it is [reconciler.RegisterConfig] otherwise.
func RegisterConfig[Obj comparable](params reconciler.Params, cfg reconciler.Config[Obj], engine Engine[Obj]) (*reconciler.Loop[Obj], error) {
	cfg, err := configured(cfg, engine)
	if err != nil {
		return nil, err
	}
	return reconciler.RegisterConfig(params, cfg)
}

// Register is [RegisterConfig] with the arguments of [reconciler.Register].
func Register[Obj comparable](
	params reconciler.Params,
	table statedb.RWTable[Obj],
	clone func(Obj) Obj,
	setStatus func(Obj, reconciler.Status) Obj,
	getStatus func(Obj) reconciler.Status,
	engine Engine[Obj],
	options ...reconciler.Option,
) (reconciler.Reconciler[Obj], error) {
	loop, err := RegisterConfig(params, reconciler.Config[Obj]{
		Table: table, Clone: clone, SetStatus: setStatus, GetStatus: getStatus, Options: options,
	}, engine)
	if err != nil {
		return nil, err
	}
	return loop, nil
}

// configured returns a configuration with the operations of an engine.
func configured[Obj comparable](cfg reconciler.Config[Obj], engine Engine[Obj]) (reconciler.Config[Obj], error) {
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
	ops := engine.Operations()
	if ops.hook == nil {
		return cfg, fmt.Errorf("stepper: the hook of the %T is nil", engine)
	}
	ops.compare = running.Comparer(cfg.Clone, cfg.GetStatus, cfg.SetStatus)
	cfg.Operations = ops
	if ops.pruner == nil && cfg.Pruner == nil && cfg.Sweeper == nil {
		// First, so that who asks for pruning is told that there is none.
		cfg.Options = slices.Concat([]reconciler.Option{reconciler.WithoutPruning()}, cfg.Options)
	}
	return cfg, nil
}
