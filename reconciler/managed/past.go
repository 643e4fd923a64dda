// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import "slices"

// past is what the versions of a row hand on to each other, and programs do not see. What it
// points to is immutable. A row that is no clone of the one in the table has none: by that a
// plain insert is known.
type past struct {
	// applied is what [Writer.Apply] set last, nil if it never did.
	applied *claims
	// inserted is what the row said when it was inserted, nil if no pass has seen it since.
	inserted *insertion
}

// insertion is what a plain insert says: what is there besides was set by others.
type insertion struct {
	annotations map[string]string
	policies    policies
}

// applyOnly is the insertion of rows that were inserted by [Writer.Apply], which keeps account by
// itself.
var applyOnly = &insertion{}

// insertionOf returns what a row says that was just inserted.
func insertionOf(row Resource) *insertion {
	in := insertion{annotations: row.GetAnnotations(), policies: policiesOf(row)}
	if len(in.annotations) == 0 && in.policies.same(policies{}) {
		return applyOnly
	}
	return &in
}

// has reports whether a plain insert set an annotation to what it is.
func (in *insertion) has(key, value string) bool {
	if in == nil {
		return false
	}
	was, ok := in.annotations[key]
	return ok && was == value
}

// typed returns the typed policies that a plain insert set.
func (in *insertion) typed() policies {
	if in == nil {
		return policies{}
	}
	return in.policies
}

// policies are the typed policies of a row.
type policies struct {
	management ManagementPolicies
	deletion   DeletionPolicy
}

func policiesOf(row Resource) policies {
	m := row.meta()
	return policies{m.ManagementPolicies, m.DeletionPolicy}
}

func (p policies) same(other policies) bool {
	return p.deletion == other.deletion && slices.Equal(p.management, other.management)
}
