// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/optional"
	"github.com/statekeel/statekeel/reconciler"
)

// operations implements the operations of a loop with a [StatefulReconciler]. They are for one
// table.
type operations[T StatefulResource, State, Item any] struct {
	base BaseStatefulReconciler[T, State, Item]
	impl StatefulReconciler[T, State, Item]
	key  string
	// compare tells the loop whether an update has changed its resource.
	compare func(ctx context.Context, resource T)
}

// newOperations returns operations that use impl, and log annotations that cannot be read to
// logger, which may be nil. The error names every mistake of impl.
func newOperations[T StatefulResource, State, Item any](logger *slog.Logger, impl StatefulReconciler[T, State, Item]) (*operations[T, State, Item], error) {
	if impl == nil {
		return nil, errors.New("the stateful reconciler is nil")
	}
	key := impl.GetStateAnnotationKey()
	var errs []error
	if key == "" {
		errs = append(errs, fmt.Errorf("%T.GetStateAnnotationKey: the key is empty", impl))
	}
	errs = append(errs,
		optional.Check[AnnotationUpdater[T, State]](impl, "UpdateStateAnnotation"),
		optional.Check[StateObserver[T, State]](impl, "ObserveState"),
		optional.Check[StateStore[T]](impl, "LoadState"),
		optional.Check[StateStore[T]](impl, "StoreState"),
		optional.Check[Requeuer[T]](impl, "RequeueAfter"),
		optional.Check[reconciler.Pruner[T]](impl, "Prune"))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &operations[T, State, Item]{
		base: BaseStatefulReconciler[T, State, Item]{Logger: logger}, impl: impl, key: key,
	}, nil
}

// Update calls [BaseStatefulReconciler.Reconcile].
func (o *operations[T, State, Item]) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, resource T) error {
	// Deferred, so that changes from before a panic are written, also if the panic is no news.
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
	for _, key := range []string{o.key, epochKey(o.key)} {
		if text, ok := reconciled.GetAnnotations()[key]; ok {
			current.SetAnnotation(key, text)
		}
	}
	return current
}
