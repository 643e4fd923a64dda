// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/optional"
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
// Operations, BatchOperations and RoundOperations of cfg must be nil: the annotation says what the target
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
	errs := []error{check(impl), running.CheckStatus(cfg.Clone != nil, cfg.SetStatus != nil, cfg.GetStatus != nil)}
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
	ops := &operations[T, State, Item]{impl: impl, compare: running.Comparer(cfg.Clone, cfg.GetStatus, cfg.SetStatus)}
	ops.base.Logger = cfg.Log
	cfg.Operations, cfg.OrphansOnly = ops, cfg.Lister != nil
	if cfg.Merge == nil {
		cfg.Merge = ops.merge
	}
	if cfg.Pruner == nil && cfg.Lister == nil {
		cfg.Pruner, _ = impl.(reconciler.Pruner[T])
	}
	// In front, so that options of the program take precedence.
	defaults := []reconciler.Option{reconciler.WithRefreshing(refreshInterval, rate.NewLimiter(refreshRate, 1))}
	cfg.Options = slices.Concat(defaults, cfg.Options)
	return cfg, nil
}

// check returns an error that names every mistake of an implementation.
func check[T StatefulResource, State, Item any](impl StatefulReconciler[T, State, Item]) error {
	if impl == nil {
		return errors.New("the stateful reconciler is nil")
	}
	var empty error
	if impl.GetStateAnnotationKey() == "" {
		empty = fmt.Errorf("%T.GetStateAnnotationKey: the key is empty", impl)
	}
	return errors.Join(empty,
		optional.Check[AnnotationUpdater[T, State]](impl, "UpdateStateAnnotation"),
		optional.Check[StateObserver[T, State]](impl, "ObserveState"),
		optional.Check[StateStore[T]](impl, "LoadState"),
		optional.Check[StateStore[T]](impl, "StoreState"),
		optional.Check[Requeuer[T]](impl, "RequeueAfter"),
		optional.Check[reconciler.Pruner[T]](impl, "Prune"))
}

// operations are the operations of a loop for one table.
type operations[T StatefulResource, State, Item any] struct {
	base BaseStatefulReconciler[T, State, Item]
	impl StatefulReconciler[T, State, Item]
	// compare tells the loop whether an update has changed its resource.
	compare func(ctx context.Context, resource T)
}

// Update calls [BaseStatefulReconciler.Reconcile].
func (o *operations[T, State, Item]) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, resource T) error {
	// Deferred, so that changes from before a panic are written, even if the panic is no news.
	defer o.compare(ctx, resource)
	return o.base.Reconcile(ctx, resource, o.impl)
}

// Delete calls [BaseStatefulReconciler.Remove].
func (o *operations[T, State, Item]) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, resource T) error {
	return o.base.Remove(ctx, resource, o.impl)
}

// merge copies the annotations of this reconciler, and nothing else, from a reconciled resource
// onto current, a clone of the row in the table, and returns that.
func (o *operations[T, State, Item]) merge(current, reconciled T) T {
	key := o.impl.GetStateAnnotationKey()
	for _, key := range []string{key, epochKey(key)} {
		if text, ok := reconciled.GetAnnotations()[key]; ok {
			current.SetAnnotation(key, text)
		}
	}
	return current
}
