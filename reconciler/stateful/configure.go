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

// The defaults of the refresh, at which a [StateObserver] finds drift.
const (
	refreshInterval = 30 * time.Minute
	refreshRate     = 100 // objects a second
)

// Configure returns a copy of cfg with operations that use impl. The result is for [reconciler.New]
// or [reconciler.RegisterConfig]; its fields may be changed before. The operations are for one
// table.
//
// Operations, BatchOperations, RoundOperations and Lister of cfg must be nil: the annotation says what the target
// has. The error names every mistake.
//
// Log reports annotations that cannot be read; in a hive set it to params.Log. nil turns this off.
//
// Clone, GetStatus and SetStatus are required. They are used to detect whether ApplyOperations changed the resource.
// Such a change is written with the outcome, whatever that is, a panic included. A shallow Clone is
// enough for the annotations. It must copy every other map, slice or pointer that ApplyOperations
// changes.
//
// If Merge is nil, the result has a Merge that copies the annotations of this reconciler and
// nothing else. To copy more, replace it in the result by a function that calls it. If Merge is set
// in cfg it is not changed, and must copy these annotations itself.
//
// Rows that are Done are refreshed every 30 minutes, at most 100 a second: see
// [reconciler.WithRefreshing]. impl prunes if it implements [reconciler.Pruner], and Pruner and
// Lister are nil. A Lister lists rows with a state annotation, which says what the target has of each. It is called for
// orphans only: Configure sets OrphansOnly. Options of cfg take precedence over these defaults.
func Configure[T StatefulResource, State, Item any](cfg reconciler.Config[T], impl StatefulReconciler[T, State, Item]) (reconciler.Config[T], error) {
	ops, err := newOperations(cfg.Log, impl)
	errs := []error{err, running.CheckStatus(cfg.Clone != nil, cfg.SetStatus != nil, cfg.GetStatus != nil)}
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
	cfg.Operations, cfg.OrphansOnly = ops, cfg.Lister != nil
	if cfg.Merge == nil {
		cfg.Merge = ops.merge
	}
	// In front, so that options of the program take precedence.
	defaults := []reconciler.Option{reconciler.WithRefreshing(refreshInterval, rate.NewLimiter(refreshRate, 1))}
	if cfg.Pruner == nil && cfg.Lister == nil {
		cfg.Pruner, _ = impl.(reconciler.Pruner[T])
	}
	cfg.Options = slices.Concat(defaults, cfg.Options)
	return cfg, nil
}
