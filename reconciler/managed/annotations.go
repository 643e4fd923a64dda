// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"fmt"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// AnnotationPrefix is the prefix of the keys of all annotations of this package.
const AnnotationPrefix = "statekeel.io/"

// These annotations are notes: the reconciler writes them on a row for its next pass.
const (
	// AnnotationExternalName holds the name of the resource in the outside system. If the outside
	// system chooses the name, the client sets it in Create. Set it on a new row to take over a
	// resource that exists already.
	AnnotationExternalName = AnnotationPrefix + "external-name"
	// AnnotationCreatePending holds when the last create of the external resource was about to start.
	AnnotationCreatePending = AnnotationPrefix + "external-create-pending"
	// AnnotationCreateSucceeded holds when the last successful create ended.
	AnnotationCreateSucceeded = AnnotationPrefix + "external-create-succeeded"
	// AnnotationCreateFailed holds when the last failed create ended.
	AnnotationCreateFailed = AnnotationPrefix + "external-create-failed"
	// AnnotationCreateChanges lists the other annotations that creates have set or removed, so that the
	// next version of the row keeps these changes.
	AnnotationCreateChanges = AnnotationPrefix + "external-create-changes"
	// AnnotationReconcileHandled holds the value that [AnnotationReconcileRequested] had in the last
	// pass that observed the resource.
	AnnotationReconcileHandled = AnnotationPrefix + "reconcile-handled-at"
)

// A program or a person writes these annotations on a row, for the reconciler. Set the status to
// Pending with them, as [Writer.Edit] does: otherwise the loop does not notice the change.
const (
	// AnnotationPaused, if "true", pauses the object: see [SetPaused].
	AnnotationPaused = AnnotationPrefix + "paused"
	// AnnotationPollInterval holds the poll interval of this object: see [SetPollInterval].
	AnnotationPollInterval = AnnotationPrefix + "poll-interval"
	// AnnotationReconcileRequested asks for a pass now: see [RequestReconcile].
	AnnotationReconcileRequested = AnnotationPrefix + "reconcile-requested-at"
	// AnnotationManagementPolicies holds the management policies of this object: see
	// [SetManagementPolicies].
	AnnotationManagementPolicies = AnnotationPrefix + "management-policies"
	// AnnotationDeletionPolicy, if "Orphan", keeps the external resource when the object is deleted:
	// see [SetDeletionPolicy].
	AnnotationDeletionPolicy = AnnotationPrefix + "deletion-policy"
)

// GetExternalName returns the name of the resource in the outside system, empty if it is not known.
func GetExternalName(obj object.Object) string { return obj.GetAnnotations()[AnnotationExternalName] }

// SetExternalName sets the name of the resource in the outside system on a clone.
func SetExternalName(obj object.Object, name string) {
	obj.SetAnnotation(AnnotationExternalName, name)
}

// GetCreatePending returns when the last create was about to start, zero if there was none.
func GetCreatePending(obj object.Object) time.Time { return timeOf(obj, AnnotationCreatePending) }

// SetCreatePending records on a clone that the resource is about to be created. The results of earlier
// creates are kept.
func SetCreatePending(obj object.Object, at time.Time) { setTime(obj, AnnotationCreatePending, at) }

// GetCreateSucceeded returns when the last successful create ended, zero if there was none.
func GetCreateSucceeded(obj object.Object) time.Time { return timeOf(obj, AnnotationCreateSucceeded) }

// SetCreateSucceeded records on a clone that the resource was created.
func SetCreateSucceeded(obj object.Object, at time.Time) {
	setTime(obj, AnnotationCreateSucceeded, at)
}

// GetCreateFailed returns when the last failed create ended, zero if there was none.
func GetCreateFailed(obj object.Object) time.Time { return timeOf(obj, AnnotationCreateFailed) }

// SetCreateFailed records on a clone that the create failed.
func SetCreateFailed(obj object.Object, at time.Time) { setTime(obj, AnnotationCreateFailed, at) }

// IsCreateIncomplete reports whether a create was started and its result was not recorded: the resource
// may or may not have been created.
func IsCreateIncomplete(obj object.Object) bool {
	pending := GetCreatePending(obj)
	return !pending.IsZero() && GetCreateSucceeded(obj).Before(pending) && GetCreateFailed(obj).Before(pending)
}

// DecideCreate records on a clone what a person found out about an object for which
// [IsCreateIncomplete] is true. Write the clone with status Pending, as [Writer.Edit] does. A name
// means that the resource was created and has this external name. An empty name means that it was not
// created: the next pass creates it, unless Observe finds it.
func DecideCreate(obj object.Object, externalName string) {
	at := time.Now()
	if pending := GetCreatePending(obj); pending.After(at) {
		at = pending
	}
	if externalName == "" {
		SetCreateFailed(obj, at)
		return
	}
	SetExternalName(obj, externalName)
	SetCreateSucceeded(obj, at)
}

// IsPaused reports whether the annotation of an object pauses it.
func IsPaused(obj object.Object) bool { return obj.GetAnnotations()[AnnotationPaused] == "true" }

// SetPaused pauses or resumes an object, on a clone. The external resource of a paused object is
// neither observed nor changed, and its deletion is refused.
func SetPaused(obj object.Object, paused bool) {
	if paused {
		obj.SetAnnotation(AnnotationPaused, "true")
	} else {
		obj.RemoveAnnotation(AnnotationPaused)
	}
}

// GetPollInterval returns the poll interval of this object, and false if it has none of its own. It
// returns an error if the annotation is not a duration above zero.
func GetPollInterval(obj object.Object) (interval time.Duration, ok bool, err error) {
	text, ok := obj.GetAnnotations()[AnnotationPollInterval]
	if !ok {
		return 0, false, nil
	}
	interval, err = time.ParseDuration(text)
	if err != nil || interval <= 0 {
		return 0, false, fmt.Errorf("annotation %q is %q, must be a duration above zero such as \"30s\"", AnnotationPollInterval, text)
	}
	return interval, true, nil
}

// SetPollInterval sets the poll interval of this object on a clone. Zero or less removes it: then the
// interval of all objects applies.
func SetPollInterval(obj object.Object, interval time.Duration) {
	if interval <= 0 {
		obj.RemoveAnnotation(AnnotationPollInterval)
		return
	}
	obj.SetAnnotation(AnnotationPollInterval, interval.String())
}

// RequestReconcile asks for a pass now, on a clone. Write the clone with status Pending, as
// [Writer.Edit] does. The token is any text that was not used before, such as the time.
// [ReconcileHandled] reports when the resource has been observed for it.
func RequestReconcile(obj object.Object, token string) {
	obj.SetAnnotation(AnnotationReconcileRequested, token)
}

// ReconcileHandled reports whether the resource was observed since [RequestReconcile] was called with
// the token, and no later token was handled.
func ReconcileHandled(obj object.Object, token string) bool {
	handled, ok := obj.GetAnnotations()[AnnotationReconcileHandled]
	return ok && handled == token
}

// noted lists the annotations that only the reconciler writes.
var noted = [...]string{
	AnnotationExternalName, AnnotationCreatePending, AnnotationCreateSucceeded, AnnotationCreateFailed,
	AnnotationCreateChanges, AnnotationReconcileHandled,
}

// copyNotes copies the annotations in noted, and the changes that creates made to other annotations. It
// leaves alone what from does not have.
func copyNotes(to, from object.Object) {
	annotations := from.GetAnnotations()
	copyCreated(to, annotations, nothingKept)
	for _, key := range noted {
		if value, ok := annotations[key]; ok {
			to.SetAnnotation(key, value)
		}
	}
}

// sameNotes reports whether two objects have the same values of the annotations in noted.
func sameNotes(a, b object.Object) bool {
	for _, key := range noted {
		if a.GetAnnotations()[key] != b.GetAnnotations()[key] {
			return false
		}
	}
	return true
}

func setTime(obj object.Object, key string, at time.Time) {
	obj.SetAnnotation(key, at.UTC().Format(time.RFC3339Nano))
}

// timeOf returns the time in an annotation, zero if there is none or it cannot be parsed.
func timeOf(obj object.Object, key string) time.Time {
	return parsed(obj.GetAnnotations()[key])
}
