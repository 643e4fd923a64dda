// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// A refresh repairs the drift that a [StateObserver] sees.
const (
	refreshInterval = 30 * time.Minute
	refreshRate     = 100 // objects a second
)

// Configure returns a configuration with operations that do what impl says. The result is for
// [reconciler.New] or [reconciler.RegisterConfig]; its fields may be changed before. The operations
// are for one table.
//
// Of the given configuration, Clone, GetStatus and SetStatus are used by the operations; a shallow
// Clone will do. They write what ApplyOperations sets on a resource with any outcome. Log, which is
// params.Log in a hive, is told of annotations that cannot be read; nil means nowhere. Operations,
// BatchOperations and RoundOperations have to be nil.
//
// If Merge is nil, it becomes a function that copies the annotations of this reconciler and nothing
// else; one that copies more can call it. What is Done is refreshed every 30 minutes, at most 100
// resources a second, unless [reconciler.WithRefreshing] says otherwise. There is no pruning unless
// impl is a [reconciler.Pruner], or Pruner or Sweeper is set: a Sweeper lists resources with an
// annotation that says what the target has of each. The error names everything that is wrong.
func Configure[T StatefulResource, State, Item any](cfg reconciler.Config[T], impl StatefulReconciler[T, State, Item]) (reconciler.Config[T], error) {
	ops, err := newOperations(cfg.Log, impl)
	errs := []error{err}
	foreign := func(is bool, field string, value any) {
		if is {
			errs = append(errs, fmt.Errorf("%s is %T, must be nil: the operations are those of the stateful reconciler", "Config."+field, value))
		}
	}
	foreign(cfg.Operations != nil, "Operations", cfg.Operations)
	foreign(cfg.BatchOperations != nil, "BatchOperations", cfg.BatchOperations)
	foreign(cfg.RoundOperations != nil, "RoundOperations", cfg.RoundOperations)
	if err := errors.Join(errs...); err != nil {
		return cfg, fmt.Errorf("stateful: %w", err)
	}
	ops.compare = running.Comparer(cfg.Clone, cfg.GetStatus, cfg.SetStatus)
	cfg.Operations = ops
	if cfg.Merge == nil {
		cfg.Merge = ops.merge
	}
	// In front, so that an option of the program takes its place.
	defaults := []reconciler.Option{reconciler.WithRefreshing(refreshInterval, rate.NewLimiter(refreshRate, 1))}
	if _, prunes := impl.(reconciler.Pruner[T]); !prunes && cfg.Pruner == nil && cfg.Sweeper == nil {
		defaults = append(defaults, reconciler.WithoutPruning())
	}
	cfg.Options = slices.Concat(defaults, cfg.Options)
	return cfg, nil
}
