// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/statekeel/statekeel/reconciler/object"
)

// ManagementAction is one thing that the reconciler may do.
type ManagementAction string

const (
	// ManagementActionObserve is to look at the external resource. Whatever is done needs it.
	ManagementActionObserve ManagementAction = "Observe"
	// ManagementActionCreate is to create what is missing.
	ManagementActionCreate ManagementAction = "Create"
	// ManagementActionUpdate is to change what differs.
	ManagementActionUpdate ManagementAction = "Update"
	// ManagementActionDelete is to delete the external resource with the object. Without it
	// the object goes and the resource stays.
	ManagementActionDelete ManagementAction = "Delete"
	// ManagementActionLateInitialize is to keep what the client fills in on the row when it
	// observes. Without it the rest of the pass sees what Observe sets, and of that conditions,
	// annotations and what [WithObserved] says are kept. A row of an object that may only be
	// observed is written whole.
	ManagementActionLateInitialize ManagementAction = "LateInitialize"
	// ManagementActionAll is all of them.
	ManagementActionAll ManagementAction = "*"
)

// ManagementPolicies are what the reconciler may do for an object. An empty set means nothing
// at all: the object is paused.
type ManagementPolicies []ManagementAction

// ShouldCreate reports whether what is missing may be created.
func (p ManagementPolicies) ShouldCreate() bool { return p.allows(ManagementActionCreate) }

// ShouldUpdate reports whether what differs may be changed.
func (p ManagementPolicies) ShouldUpdate() bool { return p.allows(ManagementActionUpdate) }

// ShouldDelete reports whether the external resource goes with the object.
func (p ManagementPolicies) ShouldDelete() bool { return p.allows(ManagementActionDelete) }

// ShouldLateInitialize reports whether what the client fills in may be kept.
func (p ManagementPolicies) ShouldLateInitialize() bool {
	return p.allows(ManagementActionLateInitialize)
}

// ShouldOnlyObserve reports whether nothing may be done but to look.
func (p ManagementPolicies) ShouldOnlyObserve() bool {
	return len(p) > 0 && !slices.ContainsFunc(p, func(a ManagementAction) bool { return a != ManagementActionObserve })
}

// IsPaused reports whether nothing may be done at all.
func (p ManagementPolicies) IsPaused() bool { return len(p) == 0 }

// Validate returns everything that is wrong with the set: actions that nobody knows, and actions
// without the one to observe, which all need.
func (p ManagementPolicies) Validate() error {
	var errs []error
	for _, action := range p {
		if !slices.Contains(knownActions, action) {
			errs = append(errs, fmt.Errorf("management action %q is none of %q", action, knownActions))
		}
	}
	if len(p) > 0 && !p.allows(ManagementActionObserve) {
		errs = append(errs, fmt.Errorf("management policies %q lack %q, without which nothing can be done", p, ManagementActionObserve))
	}
	return errors.Join(errs...)
}

// String returns the actions with commas between them, as they stand in the annotation.
func (p ManagementPolicies) String() string {
	var text strings.Builder
	for i, action := range p {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(string(action))
	}
	return text.String()
}

var knownActions = []ManagementAction{
	ManagementActionObserve, ManagementActionCreate, ManagementActionUpdate, ManagementActionDelete,
	ManagementActionLateInitialize, ManagementActionAll,
}

func (p ManagementPolicies) allows(action ManagementAction) bool {
	for _, a := range p {
		if a == action || a == ManagementActionAll {
			return true
		}
	}
	return false
}

// GetManagementPolicies returns the policies of this object, false if it has none of its own: those
// of the annotation, else those of [Meta]. They are not validated.
func GetManagementPolicies(obj Resource) (policies ManagementPolicies, ok bool) {
	text, ok := obj.GetAnnotations()[AnnotationManagementPolicies]
	if !ok {
		own := obj.meta().ManagementPolicies
		return own, len(own) > 0
	}
	policies = ManagementPolicies{}
	for action := range strings.SplitSeq(text, ",") {
		if action = strings.TrimSpace(action); action != "" {
			policies = append(policies, ManagementAction(action))
		}
	}
	return policies, true
}

// SetManagementPolicies sets the policies of this object on a clone, as an annotation: none at all
// pause it. To have those of [Meta], or of all objects, again, remove
// [AnnotationManagementPolicies]. A program that knows the policies when it writes the row sets the
// field of [Meta].
func SetManagementPolicies(obj object.Object, actions ...ManagementAction) {
	obj.SetAnnotation(AnnotationManagementPolicies, ManagementPolicies(actions).String())
}

// DeletionPolicy says what becomes of the external resource when the object is deleted.
type DeletionPolicy string

const (
	// DeletionDelete deletes it, if the management policies allow. That is the default.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan leaves it where it is, whatever the management policies say.
	DeletionOrphan DeletionPolicy = "Orphan"
)

// GetDeletionPolicy returns the deletion policy of an object: that of the annotation, else that of
// [Meta]. The error says that it is none.
func GetDeletionPolicy(obj Resource) (DeletionPolicy, error) {
	where, p := "field DeletionPolicy", obj.meta().DeletionPolicy
	if text, ok := obj.GetAnnotations()[AnnotationDeletionPolicy]; ok {
		where, p = fmt.Sprintf("annotation %q", AnnotationDeletionPolicy), DeletionPolicy(text)
	}
	switch p {
	case "", DeletionDelete:
		return DeletionDelete, nil
	case DeletionOrphan:
		return p, nil
	default:
		return p, fmt.Errorf("%s is %q, must be %q or %q", where, p, DeletionDelete, DeletionOrphan)
	}
}

// SetDeletionPolicy sets the deletion policy of an object on a clone, as an annotation.
func SetDeletionPolicy(obj object.Object, p DeletionPolicy) {
	obj.SetAnnotation(AnnotationDeletionPolicy, string(p))
}

// policy is what one pass may do.
type policy struct {
	ManagementPolicies
	deletes bool
}

// policyOf returns what may be done for an object whose policies are, unless it has some of its
// own, the given ones. The error says what of the object's is wrong.
func policyOf(obj Resource, common ManagementPolicies) (policy, error) {
	p := policy{ManagementPolicies: common}
	var err error
	if own, ok := GetManagementPolicies(obj); ok {
		p.ManagementPolicies = own
		err = own.Validate()
	}
	deletion, deletionErr := GetDeletionPolicy(obj)
	p.deletes = deletion == DeletionDelete && p.ShouldDelete()
	return p, errors.Join(err, deletionErr)
}
