// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"cmp"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler"
)

// ConditionType says what a condition is about. An object has one condition of each type.
type ConditionType string

const (
	// TypeSynced is whether the last pass did what it was to do. It is the reconciler's.
	TypeSynced ConditionType = "Synced"
	// TypeReady is whether the external resource can be used. It is the client's, and the
	// reconciler's where the client says nothing.
	TypeReady ConditionType = "Ready"
)

// ConditionStatus is whether a condition holds.
type ConditionStatus string

// What a condition may be.
const (
	ConditionTrue    ConditionStatus = "True"
	ConditionFalse   ConditionStatus = "False"
	ConditionUnknown ConditionStatus = "Unknown"
)

// ConditionReason says in one word why a condition is as it is.
type ConditionReason string

// Why an object is or is not ready.
const (
	ReasonAvailable   ConditionReason = "Available"
	ReasonUnavailable ConditionReason = "Unavailable"
	ReasonCreating    ConditionReason = "Creating"
	ReasonDeleting    ConditionReason = "Deleting"
)

// Why an object is or is not synced.
const (
	ReasonReconcileSuccess ConditionReason = "ReconcileSuccess"
	ReasonReconcileError   ConditionReason = "ReconcileError"
	ReasonReconcilePaused  ConditionReason = "ReconcilePaused"
	// ReasonReconcileWaiting is that of an object that waits for another row, or for others
	// who have to clean up before it is deleted.
	ReasonReconcileWaiting ConditionReason = "ReconcileWaiting"
	// ReasonCreateUnsure is that of an object whose external resource may or may not have
	// been created: see [DecideCreate].
	ReasonCreateUnsure ConditionReason = "CreateUnsure"
)

// Condition is one thing that a person may ask of an object.
type Condition struct {
	Type   ConditionType   `json:"type" yaml:"type"`
	Status ConditionStatus `json:"status" yaml:"status"`
	// LastTransitionTime is when the status, the reason or the message became what it is.
	LastTransitionTime time.Time       `json:"lastTransitionTime,omitzero" yaml:"lastTransitionTime,omitempty"`
	Reason             ConditionReason `json:"reason,omitempty" yaml:"reason,omitempty"`
	// Message is a sentence for people, mostly empty when all is well. SetConditions cuts it to
	// [reconciler.MaxErrorText].
	Message string `json:"message,omitempty" yaml:"message,omitempty"`
	// ObservedGeneration is the generation of the object that the condition is about. The
	// reconciler sets it. It does not move the transition time.
	ObservedGeneration int64 `json:"observedGeneration,omitempty" yaml:"observedGeneration,omitempty"`
}

// Same reports whether two conditions say the same, whenever they said it first and of
// whatever generation.
func (c Condition) Same(other Condition) bool {
	return c.Type == other.Type && c.Status == other.Status && c.Reason == other.Reason && c.Message == other.Message
}

// WithMessage returns the condition with another message.
func (c Condition) WithMessage(message string) Condition {
	c.Message = message
	return c
}

// ConditionOf returns the condition of a type of an object; if there is none, one with status
// [ConditionUnknown] and nothing else.
func ConditionOf(obj Resource, t ConditionType) Condition {
	return conditionIn(obj.GetConditions(), t)
}

// IsReady reports whether the external resource of an object can be used.
func IsReady(obj Resource) bool { return ConditionOf(obj, TypeReady).Status == ConditionTrue }

// IsSynced reports whether the last pass of an object did what it was to do.
func IsSynced(obj Resource) bool { return ConditionOf(obj, TypeSynced).Status == ConditionTrue }

// Available is that the external resource can be used.
func Available() Condition { return condition(TypeReady, ConditionTrue, ReasonAvailable, "") }

// Unavailable is that the external resource exists and cannot be used; say why with
// [Condition.WithMessage].
func Unavailable() Condition { return condition(TypeReady, ConditionFalse, ReasonUnavailable, "") }

// Creating is that the external resource is being created.
func Creating() Condition { return condition(TypeReady, ConditionFalse, ReasonCreating, "") }

// Deleting is that the external resource is being deleted.
func Deleting() Condition { return condition(TypeReady, ConditionFalse, ReasonDeleting, "") }

// ReconcileSuccess is that the last pass did what it was to do.
func ReconcileSuccess() Condition {
	return condition(TypeSynced, ConditionTrue, ReasonReconcileSuccess, "")
}

// ReconcileError is that the last pass failed, with the text of the error, cut to
// [reconciler.MaxErrorText], empty if err is nil.
func ReconcileError(err error) Condition {
	return condition(TypeSynced, ConditionFalse, ReasonReconcileError, textOf(err))
}

// ReconcilePaused is that nothing is done for the object because it is paused.
func ReconcilePaused() Condition {
	return condition(TypeSynced, ConditionFalse, ReasonReconcilePaused, "")
}

// ReconcileWaiting is that the object waits for another row, or for others, with the text of the
// error that says for which.
func ReconcileWaiting(err error) Condition {
	return condition(TypeSynced, ConditionFalse, ReasonReconcileWaiting, textOf(err))
}

// CreateUnsure is that the external resource may or may not have been created.
func CreateUnsure() Condition {
	return condition(TypeSynced, ConditionFalse, ReasonCreateUnsure, textOf(errCreateUnsure))
}

// What the conditions say of a resource as it should be.
var available, success = Available(), ReconcileSuccess()

func condition(t ConditionType, status ConditionStatus, reason ConditionReason, message string) Condition {
	return Condition{Type: t, Status: status, Reason: reason, Message: message, LastTransitionTime: time.Now()}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	// As it will be kept: what is compared with it must not seem to be news.
	return text.Cut(err.Error(), reconciler.MaxErrorText)
}

func conditionIn(conditions []Condition, t ConditionType) Condition {
	for i := range conditions {
		if conditions[i].Type == t {
			return conditions[i]
		}
	}
	return Condition{Type: t, Status: ConditionUnknown}
}

// merged returns old with the conditions of news in their places: old itself if none of them
// is news, else a copy. They are in the order of their types.
func merged(old, news []Condition) []Condition {
	copied := false
	for _, c := range news {
		c.Message = text.Cut(c.Message, reconciler.MaxErrorText)
		i := slices.IndexFunc(old, func(o Condition) bool { return o.Type == c.Type })
		if i >= 0 && old[i].Same(c) {
			c.LastTransitionTime = old[i].LastTransitionTime
		}
		if i >= 0 && old[i] == c {
			continue
		}
		if !copied {
			old, copied = append(make([]Condition, 0, len(old)+len(news)), old...), true
		}
		if i >= 0 {
			old[i] = c
			continue
		}
		at, _ := slices.BinarySearchFunc(old, c.Type, func(o Condition, t ConditionType) int { return cmp.Compare(o.Type, t) })
		old = slices.Insert(old, at, c)
	}
	return old
}
