// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"fmt"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// AnnotationPrefix is what the keys of all annotations of this package begin with.
const AnnotationPrefix = "statekeel.io/"

// What the reconciler notes on a row, for its next pass.
const (
	// AnnotationExternalName is how the outside system calls the resource. Where it is
	// chosen by the outside system the client sets it in Create; it may be set on a new row,
	// to take over what exists.
	AnnotationExternalName = AnnotationPrefix + "external-name"
	// AnnotationCreatePending is when the external resource was about to be created last.
	AnnotationCreatePending = AnnotationPrefix + "external-create-pending"
	// AnnotationCreateSucceeded is when the external resource was created last.
	AnnotationCreateSucceeded = AnnotationPrefix + "external-create-succeeded"
	// AnnotationCreateFailed is when the external resource could not be created last.
	AnnotationCreateFailed = AnnotationPrefix + "external-create-failed"
	// AnnotationCreateChanges says which other annotations the creates have set or removed, so
	// that these are not lost with the row's next version.
	AnnotationCreateChanges = AnnotationPrefix + "external-create-changes"
	// AnnotationReconcileHandled has the value that [AnnotationReconcileRequested] had in the
	// last pass that observed the resource.
	AnnotationReconcileHandled = AnnotationPrefix + "reconcile-handled-at"
)

// What a program or a person notes on a row, for the reconciler. Set the status to Pending with
// any of them, as [Writer.Edit] does: a loop does not look at a row before.
const (
	// AnnotationPaused set to "true" leaves the external resource alone: see [SetPaused].
	AnnotationPaused = AnnotationPrefix + "paused"
	// AnnotationPollInterval is the poll interval of this object: see [SetPollInterval].
	AnnotationPollInterval = AnnotationPrefix + "poll-interval"
	// AnnotationReconcileRequested asks for a pass now: see [RequestReconcile].
	AnnotationReconcileRequested = AnnotationPrefix + "reconcile-requested-at"
	// AnnotationManagementPolicies are those of this object: see [SetManagementPolicies].
	AnnotationManagementPolicies = AnnotationPrefix + "management-policies"
	// AnnotationDeletionPolicy set to "Orphan" keeps the external resource when the object
	// is deleted: see [SetDeletionPolicy].
	AnnotationDeletionPolicy = AnnotationPrefix + "deletion-policy"
)

// GetExternalName returns how the outside system calls the resource, empty if that is not known.
func GetExternalName(obj object.Object) string { return obj.GetAnnotations()[AnnotationExternalName] }

// SetExternalName notes on a clone how the outside system calls the resource.
func SetExternalName(obj object.Object, name string) {
	obj.SetAnnotation(AnnotationExternalName, name)
}

// GetCreatePending returns when the resource was about to be created last, zero if never.
func GetCreatePending(obj object.Object) time.Time { return timeOf(obj, AnnotationCreatePending) }

// SetCreatePending notes on a clone that the resource is about to be created. What came of an
// earlier create is kept.
func SetCreatePending(obj object.Object, at time.Time) { setTime(obj, AnnotationCreatePending, at) }

// GetCreateSucceeded returns when the resource was created last, zero if never.
func GetCreateSucceeded(obj object.Object) time.Time { return timeOf(obj, AnnotationCreateSucceeded) }

// SetCreateSucceeded notes on a clone that the resource was created.
func SetCreateSucceeded(obj object.Object, at time.Time) {
	setTime(obj, AnnotationCreateSucceeded, at)
}

// GetCreateFailed returns when the resource could not be created last, zero if never.
func GetCreateFailed(obj object.Object) time.Time { return timeOf(obj, AnnotationCreateFailed) }

// SetCreateFailed notes on a clone that the resource could not be created.
func SetCreateFailed(obj object.Object, at time.Time) { setTime(obj, AnnotationCreateFailed, at) }

// IsCreateIncomplete reports whether a create was begun of which nobody noted what came of it:
// it may or may not have happened.
func IsCreateIncomplete(obj object.Object) bool {
	pending := GetCreatePending(obj)
	return !pending.IsZero() && GetCreateSucceeded(obj).Before(pending) && GetCreateFailed(obj).Before(pending)
}

// DecideCreate is what a person decides about an object of which [IsCreateIncomplete] is true,
// on a clone, to be written with status Pending. With a name the resource was created, and this
// is how the outside system calls it. An empty name means that it was not: it will be created
// again, if observing it does not find it.
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

// IsPaused reports whether the annotation of an object says to leave the resource alone.
func IsPaused(obj object.Object) bool { return obj.GetAnnotations()[AnnotationPaused] == "true" }

// SetPaused says on a clone whether to leave the resource alone. While an object is paused its
// deletion is refused, too.
func SetPaused(obj object.Object, paused bool) {
	if paused {
		obj.SetAnnotation(AnnotationPaused, "true")
	} else {
		obj.RemoveAnnotation(AnnotationPaused)
	}
}

// GetPollInterval returns the poll interval of this object, false if it has none of its own. The
// error says that the annotation is not a duration above zero.
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

// SetPollInterval sets the poll interval of this object on a clone; zero or below means the one
// of all objects.
func SetPollInterval(obj object.Object, interval time.Duration) {
	if interval <= 0 {
		obj.RemoveAnnotation(AnnotationPollInterval)
		return
	}
	obj.SetAnnotation(AnnotationPollInterval, interval.String())
}

// RequestReconcile asks on a clone for a pass now, to be written with status Pending. The token
// is any text that was not used before, such as the time. [ReconcileHandled] says when the
// resource was observed for it.
func RequestReconcile(obj object.Object, token string) {
	obj.SetAnnotation(AnnotationReconcileRequested, token)
}

// ReconcileHandled reports whether the resource has been observed since it was asked for with
// the token.
func ReconcileHandled(obj object.Object, token string) bool {
	handled, ok := obj.GetAnnotations()[AnnotationReconcileHandled]
	return ok && handled == token
}

// noted are the annotations that the reconciler writes, and nobody else.
var noted = [...]string{
	AnnotationExternalName, AnnotationCreatePending, AnnotationCreateSucceeded, AnnotationCreateFailed,
	AnnotationCreateChanges, AnnotationReconcileHandled,
}

// copyNotes copies the annotations that the reconciler writes, and what creates did to others; one
// that is missing is left as it is.
func copyNotes(to, from object.Object) {
	annotations := from.GetAnnotations()
	copyCreated(to, annotations, nothingKept)
	for _, key := range noted {
		if value, ok := annotations[key]; ok {
			to.SetAnnotation(key, value)
		}
	}
}

// sameNotes reports whether two objects have the same annotations of the reconciler.
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

// timeOf returns the time of an annotation, zero if there is none or it cannot be read.
func timeOf(obj object.Object, key string) time.Time {
	return parsed(obj.GetAnnotations()[key])
}
