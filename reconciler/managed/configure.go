// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/reconciler"
)

// Configure returns a copy of the configuration with a [Reconciler] as its operations. Pass it to
// [reconciler.New] or [reconciler.RegisterConfig]; its fields may be changed before that.
//
// DB, Table, Clone, SetStatus and GetStatus are required, in a hive as well: there DB is params.DB.
// Log, in a hive params.Log, receives the steps of the passes at level Debug. Operations, BatchOperations,
// RoundOperations and Lister must be nil: each pass observes its resource. The error names every wrong setting.
//
// If Merge is nil, Configure sets it to [Reconciler.Merge]. The loop does not prune unless Pruner or
// Sweeper is set. Refreshes are not needed because every object is polled.
// But a row that is Done when the loop starts is not polled until the program makes it Pending.
//
// A Sweeper lists objects with [FinalizerName], the external name, and what the client needs to delete
// them. It must not list resources that were left in place; [WithLeaveHook] can mark those. Configure
// wraps the Sweeper so that it leaves out what this process has left in place, and nothing else.
func Configure[T Managed](cfg reconciler.Config[T], opts ...ReconcilerOption) (reconciler.Config[T], error) {
	var errs []error
	for i, is := range []any{cfg.Operations, cfg.BatchOperations, cfg.RoundOperations, cfg.Lister} {
		if is != nil {
			field := [...]string{"Operations", "BatchOperations", "RoundOperations", "Lister"}[i]
			errs = append(errs, fmt.Errorf("%s is %T, must be nil: the operations are those of the managed reconciler", "Config."+field, is))
		}
	}
	r, err := newReconciler(cfg, opts)
	if err = errors.Join(append(errs, err)...); err != nil {
		return cfg, fmt.Errorf("managed: %w", err)
	}
	cfg.Operations = r
	if cfg.Sweeper != nil {
		cfg.Sweeper = &sweeper[T]{cfg.Sweeper, &r.memory}
	}
	if cfg.Merge == nil {
		cfg.Merge = r.Merge
	}
	return cfg, nil
}
