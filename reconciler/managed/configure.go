// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"
	"slices"

	"github.com/statekeel/statekeel/reconciler"
)

// Configure returns a configuration with a [Reconciler] as its operations. The result is for
// [reconciler.New] or [reconciler.RegisterConfig]; its fields may be changed before.
//
// Of the given configuration, DB, Table, Clone, SetStatus and GetStatus are required, in a hive as
// well, where params.DB is the first; Log, which is params.Log there, is told the steps of the passes
// at level Debug. Operations, BatchOperations and RoundOperations have to be nil. The error names
// every setting that is wrong.
//
// If Merge is nil, it becomes [Reconciler.Merge]. Nothing is pruned unless Pruner or Sweeper is set,
// or an option asks for it. There is no need for refreshes, since every object is polled; but a row
// that is Done when the loop starts is not polled until the program makes it Pending. A Sweeper lists
// objects that have [FinalizerName], the external name, and what the client needs to delete them. What
// was left on purpose it must not list, which [WithLeaveHook] can mark: Configure itself has the
// Sweeper leave out what this process has left, and nothing else.
func Configure[T Managed](cfg reconciler.Config[T], opts ...Option) (reconciler.Config[T], error) {
	var errs []error
	foreign := func(field string, is any) {
		errs = append(errs, fmt.Errorf("%s is %T, must be nil: the operations are those of the managed reconciler", "Config."+field, is))
	}
	if cfg.Operations != nil {
		foreign("Operations", cfg.Operations)
	}
	if cfg.BatchOperations != nil {
		foreign("BatchOperations", cfg.BatchOperations)
	}
	if cfg.RoundOperations != nil {
		foreign("RoundOperations", cfg.RoundOperations)
	}
	r, err := newReconciler(cfg, opts)
	if err = errors.Join(append(errs, err)...); err != nil {
		return cfg, fmt.Errorf("managed: %w", err)
	}
	cfg.Operations = r
	if cfg.Sweeper != nil {
		cfg.Sweeper = &sweeper[T]{cfg.Sweeper, &r.departed}
	}
	if cfg.Merge == nil {
		cfg.Merge = r.Merge
	}
	var defaults []reconciler.Option
	if cfg.Pruner == nil && cfg.Sweeper == nil {
		// In front, so that an option of the program takes its place.
		defaults = append(defaults, reconciler.WithoutPruning())
	}
	cfg.Options = slices.Concat(defaults, cfg.Options)
	return cfg, nil
}
