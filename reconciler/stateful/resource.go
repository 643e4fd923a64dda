// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// Object is the part of a row that the reconciler uses: a namespace, a name and annotations. Rows
// have it by embedding [object.Meta].
type Object = object.Object

// StatefulResource is the constraint on the rows of a stateful reconciler: an [Object] that is
// comparable, as pointers are. Namespace and name together identify a row of the table.
type StatefulResource interface {
	comparable
	Object
}

// StatefulReconciler returns the states that resources want, compares states, and applies
// differences. The state that was applied last is kept in an annotation of the row, so that items
// which are no longer wanted can be removed.
//
// State is the type that is compared and kept. It must survive encoding to JSON and back. Its zero
// value means that nothing is wanted or applied. A State must not be changed after it was returned
// or passed to a method. Item is the type of a single change. If [reconciler.Settings].Concurrency
// is above one, the methods are called from several goroutines, but never concurrently for one
// resource.
//
// It may also implement [AnnotationUpdater], [StateObserver], [StateStore], [Requeuer] and
// [reconciler.Pruner]. A method with one of their names but another signature is an error of
// [Configure].
type StatefulReconciler[T StatefulResource, State, Item any] interface {
	// GetStateAnnotationKey returns the key of the annotation with the previous state. It must be
	// constant, not empty, and different from the keys of other reconcilers of the row.
	//
	// A second annotation, whose key ends in ".epoch", marks the states that this process applied. So a clone
	// of a deleted row is applied in full, and so is a copy of a row under another name, although their
	// annotations say that the target has everything. A state that an earlier process applied is trusted,
	// unless the object was deleted since this process began.
	GetStateAnnotationKey() string

	// ExtractCurrentState returns the state that the resource wants. An error fails the attempt
	// before anything is applied.
	ExtractCurrentState(resource T) (State, error)

	// CompareStates returns the changes that lead from previous to current. previous is the zero
	// State if nothing was applied before. current is the zero State if the resource was deleted.
	// previous may be read from the annotation, or a state that was tried without success, or
	// observed. The two may be equal. An error fails the attempt before anything is applied. Embed
	// [SetDiff] or [MapDiff] for a ready-made implementation.
	CompareStates(previous, current State) (StateChangeOperations[State, Item], error)

	// ApplyOperations makes the changes in the target. It is not called if there are none. After a failed
	// attempt it is called for each state that the target may be in, one call after the other.
	//
	// An error is the outcome of the reconciliation, with every meaning that
	// [reconciler.ObjectOperations] allows. The annotation then stays as it is, and the next attempt gets
	// the same difference again. This holds for [reconciler.Requeue] too: to run again after a
	// success, implement [Requeuer].
	//
	// For a deleted resource, resource is its last version, which must not be changed, and the calls
	// remove everything that may exist. A Requeue then means that the removal is still going on.
	// Otherwise resource is a clone, and changes of it are written with the outcome.
	ApplyOperations(ctx context.Context, resource T, ops StateChangeOperations[State, Item]) error
}

// StateChangeOperations are the changes that lead from one state to another. The zero value has no
// changes. Each list has an item at most once if the states do.
type StateChangeOperations[State, Item any] struct {
	// ItemsToAdd must be added to the target. Some may exist already.
	ItemsToAdd []Item `json:"itemsToAdd,omitempty"`
	// ItemsToRemove must be removed from the target. Some may be gone already.
	ItemsToRemove []Item `json:"itemsToRemove,omitempty"`
	// ItemsToUpdate must be updated in the target to the given values. Some may be missing.
	ItemsToUpdate []Item `json:"itemsToUpdate,omitempty"`
	// ContextChanged reports that the context changed, such as the name or the type of the thing
	// that the items belong to. ApplyOperations then has to clean up the old context. If a resource
	// has been tried in several contexts, ApplyOperations is called once for each that has to be
	// cleaned up.
	ContextChanged bool `json:"contextChanged,omitempty"`
	// PreviousContext is the state with the old context, for the clean-up. It is the zero State if
	// ContextChanged is false.
	PreviousContext State `json:"previousContext,omitzero"`
}

// IsEmpty reports whether there are no changes.
func (ops *StateChangeOperations[State, Item]) IsEmpty() bool {
	return len(ops.ItemsToAdd) == 0 && len(ops.ItemsToRemove) == 0 && len(ops.ItemsToUpdate) == 0 && !ops.ContextChanged
}

// AnnotationUpdater is an optional interface of a [StatefulReconciler] that writes its annotation
// itself.
type AnnotationUpdater[T StatefulResource, State any] interface {
	// UpdateStateAnnotation sets the state annotation of the resource, which is a clone, after a
	// successful reconciliation whose state differs from the annotation. The annotation is
	// committed with the status. A [StateStore] gets its text before. It must be JSON that decodes to the
	// same State. An error or a missing annotation fails the attempt, and the annotation stays as it was.
	// Without this method the annotation is that of [BaseStatefulReconciler.UpdateAnnotation].
	UpdateStateAnnotation(resource T, currentState State) error
}

// StateObserver is an optional interface of a [StatefulReconciler] that can read the state of the
// target. Drift is then repaired at every attempt, including refreshes.
type StateObserver[T StatefulResource, State any] interface {
	// ObserveState returns the state that the target has for the resource. It must leave out items
	// that the resource does not manage: they would be removed. It is called before each
	// comparison, also for a deleted resource. Items are added and updated relative to the observed
	// state. Items are removed if they are not wanted and were observed, applied last, or tried
	// since. An error fails the attempt before anything is applied.
	ObserveState(ctx context.Context, resource T) (State, error)
}

// Requeuer is an optional interface of a [StatefulReconciler] whose resources are reconciled
// periodically, to renew a lease or, with a [StateObserver], to find drift.
type Requeuer[T StatefulResource] interface {
	// RequeueAfter returns the delay after which the resource is reconciled again. It is called
	// after a success, but not for a deleted resource. Zero and negative values mean not until it
	// changes or is refreshed.
	RequeueAfter(resource T) time.Duration
}

// StateStore is an optional interface of a [StatefulReconciler] that also keeps its states outside
// of the table, in a file or a database. Annotations are lost with the table. With a store, items
// that were applied before a restart are still removed when they are no longer wanted, and are not
// added again when they are.
//
// States that were tried without success are not stored: see [StateObserver]. If
// [reconciler.Settings].Concurrency is above one, both methods are called from several goroutines,
// but never concurrently for one resource.
type StateStore[T StatefulResource] interface {
	// LoadState returns the text that StoreState was last given for the resource, or the empty text
	// if there is none. It is called at each attempt until a call succeeds. It may be called again
	// for a resource that is inserted after its deletion. The resource may have been deleted. If
	// the annotation of the row differs from the text, the reconciler compares with both. An error
	// fails the attempt before anything is applied.
	LoadState(ctx context.Context, resource T) (text string, err error)
	// StoreState keeps the state that was applied to the resource: the text of the state
	// annotation, or the empty text if the resource was deleted and the target has nothing of it.
	// It is called after a success if the text differs from the stored one, and before the annotation
	// is set. The resource must not be changed. An error fails the attempt, which is repeated. The text
	// may have been stored nevertheless: the next success stores its text, whatever that is.
	StoreState(ctx context.Context, resource T, text string) error
}
