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
	// annotationCreatePending holds when the last create of the external resource was about to start.
	annotationCreatePending = AnnotationPrefix + "external-create-pending"
	// annotationCreateSucceeded holds when the last successful create ended.
	annotationCreateSucceeded = AnnotationPrefix + "external-create-succeeded"
	// annotationCreateFailed holds when the last failed create ended.
	annotationCreateFailed = AnnotationPrefix + "external-create-failed"
	// annotationCreateChanges lists the other annotations that creates have set or removed, so that the
	// next version of the row keeps these changes.
	annotationCreateChanges = AnnotationPrefix + "external-create-changes"
	// annotationReconcileHandled holds the value that [annotationReconcileRequested] had in the last
	// pass that observed the resource.
	annotationReconcileHandled = AnnotationPrefix + "reconcile-handled-at"
)

// A program or a person writes these annotations on a row, for the reconciler. Set the status to
// Pending with them, as [Writer.Edit] does: otherwise the loop does not notice the change.
const (
	// AnnotationPaused, if "true", pauses the object: see [SetPaused].
	AnnotationPaused = AnnotationPrefix + "paused"
	// annotationPollInterval holds the poll interval of this object: see [SetPollInterval].
	annotationPollInterval = AnnotationPrefix + "poll-interval"
	// annotationReconcileRequested asks for a pass now: see [RequestReconcile].
	annotationReconcileRequested = AnnotationPrefix + "reconcile-requested-at"
	// annotationManagementPolicies holds the management policies of this object: see
	// [SetManagementPolicies].
	annotationManagementPolicies = AnnotationPrefix + "management-policies"
	// annotationDeletionPolicy, if "Orphan", keeps the external resource when the object is deleted:
	// see [SetDeletionPolicy].
	annotationDeletionPolicy = AnnotationPrefix + "deletion-policy"
)

// GetExternalName returns the name of the resource in the outside system, empty if it is not known.
func GetExternalName(obj object.Object) string { return obj.GetAnnotations()[AnnotationExternalName] }

// SetExternalName sets the name of the resource in the outside system on a clone.
func SetExternalName(obj object.Object, name string) {
	obj.SetAnnotation(AnnotationExternalName, name)
}

// getCreatePending returns when the last create was about to start, zero if there was none.
func getCreatePending(obj object.Object) time.Time { return timeOf(obj, annotationCreatePending) }

// setCreatePending records on a clone that the resource is about to be created. The results of earlier
// creates are kept.
func setCreatePending(obj object.Object, at time.Time) { setTime(obj, annotationCreatePending, at) }

// getCreateSucceeded returns when the last successful create ended, zero if there was none.
func getCreateSucceeded(obj object.Object) time.Time { return timeOf(obj, annotationCreateSucceeded) }

// setCreateSucceeded records on a clone that the resource was created.
func setCreateSucceeded(obj object.Object, at time.Time) {
	setTime(obj, annotationCreateSucceeded, at)
}

// getCreateFailed returns when the last failed create ended, zero if there was none.
func getCreateFailed(obj object.Object) time.Time { return timeOf(obj, annotationCreateFailed) }

// setCreateFailed records on a clone that the create failed.
func setCreateFailed(obj object.Object, at time.Time) { setTime(obj, annotationCreateFailed, at) }

// IsCreateIncomplete reports whether a create was started and its result was not recorded: the resource
// may or may not have been created.
func IsCreateIncomplete(obj object.Object) bool {
	pending := getCreatePending(obj)
	return !pending.IsZero() && getCreateSucceeded(obj).Before(pending) && getCreateFailed(obj).Before(pending)
}

// DecideCreate records on a clone what a person found out about an object for which
// [IsCreateIncomplete] is true. Write the clone with status Pending, as [Writer.Edit] does. A name
// means that the resource was created and has this external name. An empty name means that it was not
// created: the next pass creates it, unless Observe finds it.
func DecideCreate(obj object.Object, externalName string) {
	at := time.Now()
	if pending := getCreatePending(obj); pending.After(at) {
		at = pending
	}
	if externalName == "" {
		setCreateFailed(obj, at)
		return
	}
	SetExternalName(obj, externalName)
	setCreateSucceeded(obj, at)
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

// getPollInterval returns the poll interval of this object, and false if it has none of its own. It
// returns an error if the annotation is not a duration above zero.
func getPollInterval(obj object.Object) (interval time.Duration, ok bool, err error) {
	text, ok := obj.GetAnnotations()[annotationPollInterval]
	if !ok {
		return 0, false, nil
	}
	interval, err = time.ParseDuration(text)
	if err != nil || interval <= 0 {
		return 0, false, fmt.Errorf("annotation %q is %q, must be a duration above zero such as \"30s\"", annotationPollInterval, text)
	}
	return interval, true, nil
}

// SetPollInterval sets the poll interval of this object on a clone. Zero or less removes it: then the
// interval of all objects applies.
func SetPollInterval(obj object.Object, interval time.Duration) {
	if interval <= 0 {
		obj.RemoveAnnotation(annotationPollInterval)
		return
	}
	obj.SetAnnotation(annotationPollInterval, interval.String())
}

// RequestReconcile asks for a pass now, on a clone. Write the clone with status Pending, as
// [Writer.Edit] does. The token is any text that was not used before, such as the time.
// [ReconcileHandled] reports when the resource has been observed for it.
func RequestReconcile(obj object.Object, token string) {
	obj.SetAnnotation(annotationReconcileRequested, token)
}

// ReconcileHandled reports whether the resource was observed since [RequestReconcile] was called with
// the token, and no later token was handled.
func ReconcileHandled(obj object.Object, token string) bool {
	handled, ok := obj.GetAnnotations()[annotationReconcileHandled]
	return ok && handled == token
}

// noted lists the annotations that only the reconciler writes.
var noted = [...]string{
	AnnotationExternalName, annotationCreatePending, annotationCreateSucceeded, annotationCreateFailed,
	annotationCreateChanges, annotationReconcileHandled,
}

func setTime(obj object.Object, key string, at time.Time) {
	obj.SetAnnotation(key, at.UTC().Format(time.RFC3339Nano))
}

// timeOf returns the time in an annotation, zero if there is none or it cannot be parsed.
func timeOf(obj object.Object, key string) time.Time {
	return parsed(obj.GetAnnotations()[key])
}
