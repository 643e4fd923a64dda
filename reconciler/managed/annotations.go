// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"fmt"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// AnnotationPrefix is the prefix of the keys of all annotations of this package. Write them with [Writer.Edit], which makes
// the row Pending: otherwise the loop does not notice the change. They override the fields of [Meta], and those the options:
//
//	reconcile-requested-at  any new text: see RequestReconcile
//	paused                  "true"
//	poll-interval           a duration such as "30s"
//	management-policies     actions separated by commas; with an invalid one nothing is done
//	deletion-policy         "Orphan" or "Delete"
//	external-name           takes over an existing resource
//
// The reconciler writes external-create-pending, -succeeded, -failed and -changes, and reconcile-handled-at, the last
// request that it has observed the resource for.
const AnnotationPrefix = "statekeel.io/"

// AnnotationExternalName holds the name of the resource in the outside system. If the outside system chooses
// the name, the client sets it in Create. Set it on a new row to take over a resource that exists already.
const AnnotationExternalName = AnnotationPrefix + "external-name"

// AnnotationPaused, if "true", pauses the object: see [SetPaused].
const AnnotationPaused = AnnotationPrefix + "paused"

// The other annotations are set by functions of this package.
const (
	// When the last create was about to start, when the last successful one ended, and the last failed one.
	annotationCreatePending   = AnnotationPrefix + "external-create-pending"
	annotationCreateSucceeded = AnnotationPrefix + "external-create-succeeded"
	annotationCreateFailed    = AnnotationPrefix + "external-create-failed"
	// The other annotations that creates have set, so that the next version of the row keeps them.
	annotationCreateChanges = AnnotationPrefix + "external-create-changes"

	annotationReconcileRequested = AnnotationPrefix + "reconcile-requested-at"
	annotationReconcileHandled   = AnnotationPrefix + "reconcile-handled-at"

	annotationPollInterval       = AnnotationPrefix + "poll-interval"
	annotationManagementPolicies = AnnotationPrefix + "management-policies"
	annotationDeletionPolicy     = AnnotationPrefix + "deletion-policy"
)

// GetExternalName returns the name of the resource in the outside system, empty if it is not known.
func GetExternalName(obj object.Object) string { return obj.GetAnnotations()[AnnotationExternalName] }

// SetExternalName sets the name of the resource in the outside system on a clone.
func SetExternalName(obj object.Object, name string) {
	obj.SetAnnotation(AnnotationExternalName, name)
}

// IsCreateIncomplete reports whether a create was started and its result was not recorded: the resource
// may or may not have been created.
func IsCreateIncomplete(obj object.Object) bool {
	pending := timeOf(obj, annotationCreatePending)
	return !pending.IsZero() && timeOf(obj, annotationCreateSucceeded).Before(pending) && timeOf(obj, annotationCreateFailed).Before(pending)
}

// DecideCreate records on a clone what a person found out about an object for which
// [IsCreateIncomplete] is true. Write the clone with status Pending, as [Writer.Edit] does. A name
// means that the resource was created and has this external name. An empty name means that it was not
// created: the next pass creates it, unless Observe finds it.
func DecideCreate(obj object.Object, externalName string) {
	at := time.Now()
	if pending := timeOf(obj, annotationCreatePending); pending.After(at) {
		at = pending
	}
	if externalName == "" {
		setTime(obj, annotationCreateFailed, at)
		return
	}
	SetExternalName(obj, externalName)
	setTime(obj, annotationCreateSucceeded, at)
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
