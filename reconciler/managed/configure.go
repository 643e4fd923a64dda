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
// Log, in a hive params.Log, receives the steps of the passes at level Debug. Operations, BatchOperations
// and RoundOperations must be nil. The error names every wrong setting.
//
// If Merge is nil, Configure sets it to [Reconciler.Merge]. The loop does not prune unless Pruner is set. Refreshes are not
// needed because every object is polled.
// But a row that is Done when the loop starts is not polled until the program makes it Pending.
//
// A Lister lists objects with [FinalizerName], the external name, and what the client needs to delete them. It is called
// for orphans only, since each pass observes its resource: Configure sets OrphansOnly. It must not list resources that were
// left in place, which [WithLeaveHook] can mark, nor those that may only be observed. Configure wraps the Lister so that it
// leaves out what this process has left in place, and nothing else.
func Configure[T Managed](cfg reconciler.Config[T], opts ...ReconcilerOption) (reconciler.Config[T], error) {
	var errs []error
	for i, is := range []any{cfg.Operations, cfg.BatchOperations, cfg.RoundOperations} {
		if is != nil {
			field := [...]string{"Operations", "BatchOperations", "RoundOperations"}[i]
			errs = append(errs, fmt.Errorf("%s is %T, must be nil: the operations are those of the managed reconciler", "Config."+field, is))
		}
	}
	r, err := newReconciler(cfg, opts)
	if err = errors.Join(append(errs, err)...); err != nil {
		return cfg, fmt.Errorf("managed: %w", err)
	}
	cfg.Operations = r
	if cfg.Lister != nil {
		cfg.Lister, cfg.OrphansOnly = &lister[T]{cfg.Lister, &r.memory}, true
	}
	if cfg.Merge == nil {
		cfg.Merge = r.Merge
	}
	return cfg, nil
}
