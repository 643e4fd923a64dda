// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"slices"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// Resource is a row that stands for a resource of an outside system. Pointers to rows that embed [Meta]
// implement it.
type Resource interface {
	object.Object
	// GetCondition and SetConditions are those of [Meta].
	GetCondition(t ConditionType) Condition
	SetConditions(conditions ...Condition)
	// meta returns the Meta that the row embeds.
	meta() *Meta
}

// Managed is the constraint for the rows of a managed table: a [Resource] that is comparable, as
// pointers are. Namespace and name together identify a row.
type Managed interface {
	comparable
	Resource
}

// Meta implements [Resource] for rows that embed it. The zero value has no name, and can be used.
type Meta struct {
	object.Meta `yaml:",inline"`

	// Finalizers are the names of those who must clean up before the row may be removed. The versions of a
	// row share the slice: replace it on a clone, and change nothing in it.
	Finalizers []string `json:"finalizers,omitempty" yaml:"finalizers,omitempty"`
	// DeletionTime is when the deletion was requested, zero if it was not. Use [Writer.Delete].
	DeletionTime time.Time `json:"deletionTime,omitzero" yaml:"deletionTime,omitempty"`
	// Generation grows when the desired state changes. [Writer.Apply] and [Writer.Delete] set it.
	Generation int64 `json:"generation,omitempty" yaml:"generation,omitempty"`
	// Conditions describe the state of the object. The versions of a row share the slice: use
	// [Meta.SetConditions].
	Conditions []Condition `json:"conditions,omitempty" yaml:"conditions,omitempty"`

	// ManagementPolicies are the allowed actions for this object. If empty, those of
	// [WithManagementPolicies] apply. An annotation overrides the field: see [SetManagementPolicies].
	// To pause an object use [SetPaused].
	ManagementPolicies ManagementPolicies `json:"managementPolicies,omitempty" yaml:"managementPolicies,omitempty"`
	// DeletionPolicy controls what happens to the external resource when the object is deleted. Empty
	// means [DeletionDelete]. An annotation overrides the field: see [SetDeletionPolicy].
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty" yaml:"deletionPolicy,omitempty"`

	lineage lineage
}

func (m *Meta) meta() *Meta { return m }

// GetCondition returns the condition of type t. If there is none, it returns one that has only the type
// and status [ConditionUnknown]. Safe from any goroutine.
func (m *Meta) GetCondition(t ConditionType) Condition { return conditionIn(m.Conditions, t) }

// SetConditions sets conditions on a clone, on a copy of the slice. Each one replaces the condition of its
// type. It keeps the transition time of that one unless its status, reason or message differs. Conditions of
// other types stay. If that changes nothing, the slice stays the same.
func (m *Meta) SetConditions(conditions ...Condition) {
	m.Conditions = merged(m.Conditions, conditions)
}

// RemoveCondition removes the condition of a type from a clone, on a copy of the slice. The slice is
// nil when the last condition is removed.
func (m *Meta) RemoveCondition(t ConditionType) {
	i := slices.IndexFunc(m.Conditions, func(c Condition) bool { return c.Type == t })
	switch {
	case i < 0:
	case len(m.Conditions) == 1:
		m.Conditions = nil
	default:
		m.Conditions = slices.Delete(slices.Clone(m.Conditions), i, i+1)
	}
}

// WasDeleted reports whether the deletion of an object was requested.
func WasDeleted(obj Resource) bool { return !obj.meta().DeletionTime.IsZero() }
