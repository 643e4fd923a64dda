// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"slices"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// Resource is a row that stands for a resource of an outside system. It is implemented by
// pointers to rows that embed [Meta].
//
// As with every [object.Object], the methods that set something are for clones only, and copy
// what they share with the row before they change it.
type Resource interface {
	object.Object

	// GetFinalizers returns who has to clean up before the row may go. The slice must not
	// be changed.
	GetFinalizers() []string
	// SetFinalizers replaces the finalizers of a clone. The slice is kept.
	SetFinalizers(finalizers []string)

	// GetDeletionTime returns when the deletion was asked for, zero if it was not.
	GetDeletionTime() time.Time
	// SetDeletionTime asks for the deletion, on a clone; zero takes it back.
	SetDeletionTime(at time.Time)

	// GetGeneration returns the number of the wish: it grows when what is wanted changes.
	GetGeneration() int64
	// SetGeneration sets the number of the wish on a clone.
	SetGeneration(generation int64)

	// GetConditions returns the conditions, one of each type, in the order of the types. The
	// slice must not be changed.
	GetConditions() []Condition
	// SetConditions sets conditions on a clone: each takes the place of the one of its
	// type. Its transition time is that of the old one, unless its status, reason or message
	// is another. Conditions of other types stay.
	SetConditions(conditions ...Condition)
	// RemoveCondition removes the condition of a type from a clone; that there is none is no
	// error.
	RemoveCondition(t ConditionType)

	// meta returns the Meta that the row embeds.
	meta() *Meta
}

// Managed is what the rows of a managed table have to be: a [Resource], and comparable, as
// pointers are. Namespace and name together tell the rows of the table apart.
type Managed interface {
	comparable
	Resource
}

// Meta implements [Resource] for the rows that embed it. The zero value has no name, and can be
// used.
type Meta struct {
	object.Meta `yaml:",inline"`

	// Finalizers are who has to clean up before the row may go. Shared by the versions of a
	// row: use [Meta.SetFinalizers].
	Finalizers []string `json:"finalizers,omitempty" yaml:"finalizers,omitempty"`
	// DeletionTime is when the deletion was asked for, zero if it was not. Use
	// [Writer.Delete].
	DeletionTime time.Time `json:"deletionTime,omitzero" yaml:"deletionTime,omitempty"`
	// Generation is the number of the wish. [Writer.Apply] counts it.
	Generation int64 `json:"generation,omitempty" yaml:"generation,omitempty"`
	// Conditions tell how the object is. Shared by the versions of a row: use
	// [Meta.SetConditions].
	Conditions []Condition `json:"conditions,omitempty" yaml:"conditions,omitempty"`

	// ManagementPolicies are what may be done for the object. Empty means those of
	// [WithManagementPolicies]. An annotation, which is a person's, takes the place of it: see
	// [SetManagementPolicies]. To pause an object use [SetPaused].
	ManagementPolicies ManagementPolicies `json:"managementPolicies,omitempty" yaml:"managementPolicies,omitempty"`
	// DeletionPolicy says what becomes of the external resource when the object is deleted.
	// Empty means [DeletionDelete]. An annotation takes the place of it: see
	// [SetDeletionPolicy].
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty" yaml:"deletionPolicy,omitempty"`

	past past
}

var _ Resource = (*Meta)(nil)

func (m *Meta) meta() *Meta { return m }

// GetFinalizers returns the finalizers, nil if there are none. The slice must not be changed.
// Safe from any goroutine.
func (m *Meta) GetFinalizers() []string { return m.Finalizers }

// SetFinalizers replaces the finalizers of a clone. The slice is kept.
func (m *Meta) SetFinalizers(finalizers []string) { m.Finalizers = finalizers }

// GetDeletionTime returns when the deletion was asked for, zero if it was not. Safe from any
// goroutine.
func (m *Meta) GetDeletionTime() time.Time { return m.DeletionTime }

// SetDeletionTime asks for the deletion, on a clone; zero takes it back.
func (m *Meta) SetDeletionTime(at time.Time) { m.DeletionTime = at }

// GetGeneration returns the number of the wish, zero if nobody counts. Safe from any goroutine.
func (m *Meta) GetGeneration() int64 { return m.Generation }

// SetGeneration sets the number of the wish on a clone.
func (m *Meta) SetGeneration(generation int64) { m.Generation = generation }

// GetConditions returns the conditions, nil if there are none. The slice must not be changed.
// Safe from any goroutine.
func (m *Meta) GetConditions() []Condition { return m.Conditions }

// GetCondition returns the condition of a type; if there is none, one with status
// [ConditionUnknown] and nothing else. Safe from any goroutine.
func (m *Meta) GetCondition(t ConditionType) Condition { return conditionIn(m.Conditions, t) }

// SetConditions sets conditions on a clone, on a copy of the slice: see [Resource]. What is
// there already leaves the slice as it is.
func (m *Meta) SetConditions(conditions ...Condition) {
	m.Conditions = merged(m.Conditions, conditions)
}

// RemoveCondition removes the condition of a type from a clone, on a copy of the slice, which is
// nil when the last one is gone.
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

// WasDeleted reports whether the deletion of an object was asked for.
func WasDeleted(obj Resource) bool { return !obj.GetDeletionTime().IsZero() }
