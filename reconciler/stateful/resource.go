// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// Object is what a row has beside its status: a namespace, a name and annotations. Rows have
// it by embedding [object.Meta].
type Object = object.Object

// StatefulResource is what the rows of a stateful reconciler have to be: an [Object], and
// comparable, as pointers are. Namespace and name together tell the rows of the table apart.
type StatefulResource interface {
	comparable
	Object
}

// StatefulReconciler tracks the previous state of resources, so that what is no longer wanted
// can be cleaned up. The state is kept in an annotation of the row, and compared with the
// state that is wanted to find out what has to change.
//
// State is what is compared and kept: it goes through JSON and back. Its zero value stands
// for nothing at all. A State that was returned or handed over must not be changed. Item is
// what the target is given, one at a time. The methods are called from several goroutines at
// once with [reconciler.Settings].Concurrency, but never two of them for one resource.
//
// It may also be an [AnnotationUpdater], a [StateObserver], a [StateStore], a [Requeuer] and a
// [reconciler.Pruner]. A method of one of these names that is of another type is an error of
// [Configure].
type StatefulReconciler[T StatefulResource, State, Item any] interface {
	// GetStateAnnotationKey returns the key of the annotation that the previous state is
	// in: always the same, not empty, and that of no other reconciler of the row.
	GetStateAnnotationKey() string

	// ExtractCurrentState returns the state that the resource wants, to be compared with
	// the previous one. An error fails the attempt before anything is applied.
	ExtractCurrentState(resource T) (State, error)

	// CompareStates returns what has to be done to get from the previous state to the
	// current one. previous is the zero State when nothing was applied before, current is
	// when the resource was deleted. It is called with a state that was read from the
	// annotation, with one that was tried and failed, and with an observed one. It may be
	// called with two that are the same. An error fails the attempt before anything is
	// applied. To have it ready-made, embed [SetDiff], [KeyDiff] or [MapDiff].
	CompareStates(previous, current State) (StateChangeOperations[State, Item], error)

	// ApplyOperations makes the changes in the target. It is not called if there are
	// none. An error is the outcome of the reconciliation, with everything that
	// [reconciler.Operations] may return; the annotation stays as it is, and the next
	// attempt sees the same difference again. That holds for [reconciler.Requeue], too:
	// to be run again after a success, be a [Requeuer]. Of a deleted resource it is given
	// the last version, which must not be changed, and the removal of what may be there; a
	// Requeue then says that the removal goes on. A resource that was not deleted is a clone:
	// what is set on it is written with the outcome.
	ApplyOperations(ctx context.Context, resource T, ops StateChangeOperations[State, Item]) error
}

// AnnotationUpdater is a [StatefulReconciler] that writes its annotation itself.
type AnnotationUpdater[T StatefulResource, State any] interface {
	// UpdateStateAnnotation sets the annotation of the resource, which is a clone, to
	// the current state after a successful reconciliation. It is called if the state
	// differs from that of the annotation; what it sets is committed with the status.
	// What it writes has to be JSON that reads as the same State. An error fails the
	// attempt. Without it the reconciler does [BaseStatefulReconciler.UpdateAnnotation].
	UpdateStateAnnotation(resource T, currentState State) error
}

// StateObserver is a [StatefulReconciler] that can see what the target has, so that drift is
// repaired: at every refresh, and at every other attempt.
type StateObserver[T StatefulResource, State any] interface {
	// ObserveState returns what of the resource the target has: what is not this
	// resource's to manage is not to be in it, as it would be removed. It is called
	// before each comparison, also when the resource was deleted. What is observed says
	// what is to be added and updated. Removed is what is observed, and what was applied
	// last or tried since, and is not wanted. An error fails the attempt before anything
	// is applied.
	ObserveState(ctx context.Context, resource T) (State, error)
}

// Requeuer is a [StatefulReconciler] whose resources are to be looked at again although
// nothing has changed: to renew a lease or, with a [StateObserver], to find drift.
type Requeuer[T StatefulResource] interface {
	// RequeueAfter returns after how long the resource is reconciled again. It is called
	// after a success, not for deleted resources. Zero and below mean not until it changes
	// or is refreshed.
	RequeueAfter(resource T) time.Duration
}
