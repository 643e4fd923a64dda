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

// ManagementAction is one action that the reconciler may be allowed to do.
type ManagementAction string

const (
	// ManagementActionObserve observes the external resource. Every other action needs it. With nothing else the whole row
	// is written as Observe left it, a missing resource is an error, and nothing is changed: deleting the object leaves the
	// resource in place.
	ManagementActionObserve ManagementAction = "Observe"
	// ManagementActionCreate creates a missing resource. Without it a missing resource is an error.
	ManagementActionCreate ManagementAction = "Create"
	// ManagementActionUpdate updates a resource that differs. Without it the resource stays as it is.
	ManagementActionUpdate ManagementAction = "Update"
	// ManagementActionDelete deletes the external resource with the object. Without it the object goes
	// and the resource stays.
	ManagementActionDelete ManagementAction = "Delete"
	// ManagementActionLateInitialize writes into the row what Observe sets on the object. Without it
	// the other calls of the pass still receive the object that Observe has changed, but only
	// conditions, annotations and what [WithObserved] copies are written.
	ManagementActionLateInitialize ManagementAction = "LateInitialize"
	// ManagementActionAll allows all actions.
	ManagementActionAll ManagementAction = "*"
)

// ManagementPolicies is the set of actions that the reconciler may do for an object. An empty set
// pauses the object.
type ManagementPolicies []ManagementAction

// Validate returns an error that lists unknown actions, and reports a set without
// [ManagementActionObserve], which all other actions need.
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

// String returns the actions separated by commas, as in the annotation.
func (p ManagementPolicies) String() string {
	texts := make([]string, 0, len(p))
	for _, action := range p {
		texts = append(texts, string(action))
	}
	return strings.Join(texts, ",")
}

var knownActions = []ManagementAction{
	ManagementActionObserve, ManagementActionCreate, ManagementActionUpdate, ManagementActionDelete,
	ManagementActionLateInitialize, ManagementActionAll,
}

// onlyObserve reports whether observing is the only allowed action.
func (p ManagementPolicies) onlyObserve() bool {
	return len(p) > 0 && !slices.ContainsFunc(p, func(a ManagementAction) bool { return a != ManagementActionObserve })
}

func (p ManagementPolicies) allows(action ManagementAction) bool {
	return slices.Contains(p, action) || slices.Contains(p, ManagementActionAll)
}

// getManagementPolicies returns the management policies of this object: those of the annotation, else
// those of [Meta]. It returns false if the object has none of its own. The policies are not validated.
func getManagementPolicies(obj Resource) (policies ManagementPolicies, ok bool) {
	text, ok := obj.GetAnnotations()[annotationManagementPolicies]
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

// SetManagementPolicies sets the management policies of this object on a clone, as an annotation. With
// no action the object is paused. Remove the annotation, "statekeel.io/management-policies", to apply the
// policies of [Meta], or of all objects, again. A program that knows the policies when it writes the row
// should set the field of [Meta] instead.
func SetManagementPolicies(obj object.Object, actions ...ManagementAction) {
	obj.SetAnnotation(annotationManagementPolicies, ManagementPolicies(actions).String())
}

// DeletionPolicy controls what happens to the external resource when the object is deleted.
type DeletionPolicy string

const (
	// DeletionDelete deletes the resource if the management policies allow it. It is the default.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan leaves the resource in place, whatever the management policies allow.
	DeletionOrphan DeletionPolicy = "Orphan"
)

// getDeletionPolicy returns the deletion policy of an object: that of the annotation, else that of
// [Meta]. It returns an error if the value is not a deletion policy.
func getDeletionPolicy(obj Resource) (DeletionPolicy, error) {
	where, p := "field DeletionPolicy", obj.meta().DeletionPolicy
	if text, ok := obj.GetAnnotations()[annotationDeletionPolicy]; ok {
		where, p = fmt.Sprintf("annotation %q", annotationDeletionPolicy), DeletionPolicy(text)
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
	obj.SetAnnotation(annotationDeletionPolicy, string(p))
}

// policy is what one pass is allowed to do.
type policy struct {
	ManagementPolicies
	deletes bool
}

// changes reports whether anything may be changed in the outside system.
func (p policy) changes() bool {
	return p.allows(ManagementActionCreate) || p.allows(ManagementActionUpdate) || p.allows(ManagementActionDelete)
}

// policyOf returns the policy of an object. common applies if the object has no management policies of
// its own. The error describes what is wrong with the policies of the object.
func policyOf(obj Resource, common ManagementPolicies) (policy, error) {
	p := policy{ManagementPolicies: common}
	var err error
	if own, ok := getManagementPolicies(obj); ok {
		p.ManagementPolicies = own
		err = own.Validate()
	}
	deletion, deletionErr := getDeletionPolicy(obj)
	p.deletes = deletion == DeletionDelete && p.allows(ManagementActionDelete)
	return p, errors.Join(err, deletionErr)
}
