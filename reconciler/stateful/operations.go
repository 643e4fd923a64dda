// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"reflect"

	"github.com/cilium/statedb"

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
		checkOptional[AnnotationUpdater[T, State]](impl, "UpdateStateAnnotation"),
		checkOptional[StateObserver[T, State]](impl, "ObserveState"),
		checkOptional[StateStore[T]](impl, "LoadState"),
		checkOptional[StateStore[T]](impl, "StoreState"),
		checkOptional[Requeuer[T]](impl, "RequeueAfter"),
		checkOptional[reconciler.Pruner[T]](impl, "Prune"))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &operations[T, State, Item]{
		base: BaseStatefulReconciler[T, State, Item]{Logger: logger}, impl: impl, key: key,
	}, nil
}

// checkOptional returns an error if a value has the method of an optional interface with another
// signature, so that it would never be called.
func checkOptional[Want any](impl any, method string) error {
	if _, ok := impl.(Want); ok {
		return nil
	}
	m := reflect.ValueOf(impl).MethodByName(method)
	if !m.IsValid() {
		return nil
	}
	want, _ := reflect.TypeFor[Want]().MethodByName(method)
	return fmt.Errorf("%T.%s is a %s, must be a %s", impl, method, m.Type(), want.Type)
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

// Prune calls impl if it implements [reconciler.Pruner], and else does nothing.
func (o *operations[T, State, Item]) Prune(ctx context.Context, txn statedb.ReadTxn, resources iter.Seq2[T, statedb.Revision]) error {
	if pruner, ok := o.impl.(reconciler.Pruner[T]); ok {
		return pruner.Prune(ctx, txn, resources)
	}
	return nil
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
