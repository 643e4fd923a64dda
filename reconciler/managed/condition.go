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

// ConditionType is the subject of a condition. An object has at most one condition of each type.
type ConditionType string

const (
	// TypeSynced reports whether the last pass succeeded. Only the reconciler sets it.
	TypeSynced ConditionType = "Synced"
	// TypeReady reports whether the external resource can be used. The client sets it in Observe; if it
	// does not, the reconciler does.
	TypeReady ConditionType = "Ready"
)

// ConditionStatus reports whether a condition holds.
type ConditionStatus string

// The values of a [ConditionStatus].
const (
	ConditionTrue    ConditionStatus = "True"
	ConditionFalse   ConditionStatus = "False"
	ConditionUnknown ConditionStatus = "Unknown"
)

// ConditionReason is one word that explains the status of a condition.
type ConditionReason string

// The reasons of [TypeReady].
const (
	reasonAvailable   ConditionReason = "Available"
	reasonUnavailable ConditionReason = "Unavailable"
	reasonCreating    ConditionReason = "Creating"
	reasonDeleting    ConditionReason = "Deleting"
)

// The reasons of [TypeSynced].
const (
	reasonReconcileSuccess ConditionReason = "ReconcileSuccess"
	reasonReconcileError   ConditionReason = "ReconcileError"
	reasonReconcilePaused  ConditionReason = "ReconcilePaused"
	// reasonReconcileWaiting: the object waits for another row or, while it is being deleted, for the
	// owners of other finalizers.
	reasonReconcileWaiting ConditionReason = "ReconcileWaiting"
	// ReasonCreateUnsure: the external resource may or may not have been created. See [DecideCreate].
	ReasonCreateUnsure ConditionReason = "CreateUnsure"
)

// Condition is one aspect of the state of an object, for people and programs to read.
type Condition struct {
	Type   ConditionType   `json:"type" yaml:"type"`
	Status ConditionStatus `json:"status" yaml:"status"`
	// LastTransitionTime is when the status, the reason or the message changed last.
	LastTransitionTime time.Time       `json:"lastTransitionTime,omitzero" yaml:"lastTransitionTime,omitempty"`
	Reason             ConditionReason `json:"reason,omitempty" yaml:"reason,omitempty"`
	// Message is a sentence for people. It is mostly empty if the status is True. SetConditions cuts it
	// to [reconciler.MaxErrorText].
	Message string `json:"message,omitempty" yaml:"message,omitempty"`
	// ObservedGeneration is the generation of the object that the condition is about. The reconciler
	// sets it. A change of it alone does not change the transition time.
	ObservedGeneration int64 `json:"observedGeneration,omitempty" yaml:"observedGeneration,omitempty"`
}

// Same reports whether two conditions have the same type, status, reason and message. Their times and
// generations may differ.
func (c Condition) Same(other Condition) bool {
	return c.Type == other.Type && c.Status == other.Status && c.Reason == other.Reason && c.Message == other.Message
}

// WithMessage returns the condition with another message.
func (c Condition) WithMessage(message string) Condition {
	c.Message = message
	return c
}

// conditionOf returns the condition of type t. If the object has none, it returns one that has only the
// type and status [ConditionUnknown].
func conditionOf(obj Resource, t ConditionType) Condition {
	return conditionIn(obj.meta().Conditions, t)
}

// IsReady reports whether the external resource of an object can be used.
func IsReady(obj Resource) bool { return conditionOf(obj, TypeReady).Status == ConditionTrue }

// IsSynced reports whether the last pass of an object succeeded.
func IsSynced(obj Resource) bool { return conditionOf(obj, TypeSynced).Status == ConditionTrue }

// Available returns the condition of an external resource that can be used.
func Available() Condition { return condition(TypeReady, ConditionTrue, reasonAvailable, "") }

// Unavailable returns the condition of an external resource that cannot be used, or that is missing
// and may not be created. Add the cause with [Condition.WithMessage].
func Unavailable() Condition { return condition(TypeReady, ConditionFalse, reasonUnavailable, "") }

// Creating returns the condition of an external resource that is being created.
func Creating() Condition { return condition(TypeReady, ConditionFalse, reasonCreating, "") }

// Deleting returns the condition of an external resource that is being deleted.
func Deleting() Condition { return condition(TypeReady, ConditionFalse, reasonDeleting, "") }

// synced returns the condition [TypeSynced] of an object whose last pass succeeded.
func synced() Condition { return condition(TypeSynced, ConditionTrue, reasonReconcileSuccess, "") }

// unsynced returns the condition [TypeSynced] of an object whose last pass did not succeed. The message is the
// text of the error, cut as SetConditions does, so that comparing with the stored condition finds no difference.
func unsynced(reason ConditionReason, err error) Condition {
	return condition(TypeSynced, ConditionFalse, reason, text.Cut(err.Error(), reconciler.MaxErrorText))
}

// The conditions of a resource that exists and is up to date. They are made once because polls compare
// with them.
var available, success = Available(), synced()

func condition(t ConditionType, status ConditionStatus, reason ConditionReason, message string) Condition {
	return Condition{Type: t, Status: status, Reason: reason, Message: message, LastTransitionTime: time.Now()}
}

func conditionIn(conditions []Condition, t ConditionType) Condition {
	for i := range conditions {
		if conditions[i].Type == t {
			return conditions[i]
		}
	}
	return Condition{Type: t, Status: ConditionUnknown}
}

// merged returns old with each condition of news in place of the one of its type. It returns old itself
// if that changes nothing, else a copy. The result is sorted by type.
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
