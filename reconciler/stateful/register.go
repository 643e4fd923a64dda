// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// Config is what the loop of a stateful reconciler is made from: see [New] and
// [RegisterConfig].
type Config[T StatefulResource, State, Item any] struct {
	// Config is that of the loop. Operations, BatchOperations and RoundOperations have to
	// be nil. A shallow Clone will do. If Merge is nil, it is
	// [Operations.Merge]. What is Done is refreshed every 30 minutes, at most 100
	// resources a second, unless [reconciler.WithRefreshing] says otherwise. There is no pruning unless Reconciler is a
	// [reconciler.Pruner], or Pruner or Sweeper is set: a Sweeper lists resources with an
	// annotation that says what the target has of each.
	reconciler.Config[T]
	// Reconciler says what is wanted, and applies differences. Required.
	Reconciler StatefulReconciler[T, State, Item]
}

// New makes a loop, to be run with [reconciler.Loop.Run]. The error names every setting that
// is wrong.
func New[T StatefulResource, State, Item any](cfg Config[T, State, Item]) (*reconciler.Loop[T], error) {
	inner, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	return reconciler.New(inner)
}

// RegisterConfig makes a loop and adds its jobs to the hive, as [reconciler.RegisterConfig]
// does. DB, Log and ModuleID of the configuration are taken from params.
func RegisterConfig[T StatefulResource, State, Item any](params reconciler.Params, cfg Config[T, State, Item]) (*reconciler.Loop[T], error) {
	cfg.DB, cfg.Log, cfg.ModuleID = params.DB, params.Log, params.ModuleID
	inner, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	return reconciler.RegisterConfig(params, inner)
}

// Register is [RegisterConfig] with arguments, as [reconciler.Register] has them.
func Register[T StatefulResource, State, Item any](
	params reconciler.Params,
	table statedb.RWTable[T],
	clone func(T) T,
	setStatus func(T, reconciler.Status) T,
	getStatus func(T) reconciler.Status,
	impl StatefulReconciler[T, State, Item],
	options ...reconciler.Option,
) (reconciler.Reconciler[T], error) {
	loop, err := RegisterConfig(params, Config[T, State, Item]{
		Config: reconciler.Config[T]{
			Table: table, Clone: clone, SetStatus: setStatus, GetStatus: getStatus, Options: options,
		},
		Reconciler: impl,
	})
	if err != nil {
		return nil, err
	}
	return loop, nil
}

// A refresh repairs the drift that a [StateObserver] sees.
const (
	refreshInterval = 30 * time.Minute
	refreshRate     = 100 // objects a second
)

// resolve returns the configuration of the loop.
func (cfg *Config[T, State, Item]) resolve() (reconciler.Config[T], error) {
	inner := cfg.Config
	ops, err := NewOperations(inner.Log, cfg.Reconciler)
	errs := []error{err}
	if inner.Operations != nil {
		errs = append(errs, fmt.Errorf("Config.Operations is %T, must be nil: the operations are those of Reconciler", inner.Operations))
	}
	if inner.BatchOperations != nil {
		errs = append(errs, fmt.Errorf("Config.BatchOperations is %T, must be nil: the operations are those of Reconciler", inner.BatchOperations))
	}
	if inner.RoundOperations != nil {
		errs = append(errs, fmt.Errorf("Config.RoundOperations is %T, must be nil: the operations are those of Reconciler", inner.RoundOperations))
	}
	if err := errors.Join(errs...); err != nil {
		return inner, fmt.Errorf("stateful: %w", err)
	}
	ops.compare = running.Comparer(inner.Clone, inner.GetStatus, inner.SetStatus)
	inner.Operations = ops
	if inner.Merge == nil {
		inner.Merge = ops.Merge
	}
	// In front, so that an option of the program takes its place.
	defaults := []reconciler.Option{reconciler.WithRefreshing(refreshInterval, rate.NewLimiter(refreshRate, 1))}
	if _, prunes := cfg.Reconciler.(reconciler.Pruner[T]); !prunes && inner.Pruner == nil && inner.Sweeper == nil {
		defaults = append(defaults, reconciler.WithoutPruning())
	}
	inner.Options = append(defaults, inner.Options...)
	return inner, nil
}
