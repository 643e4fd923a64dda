// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import "slices"

// past is what the versions of a row hand on to the next one. Programs do not see it. What it points to
// is immutable. A row that is not a clone of the one in the table has an empty past: this is how a
// plain insert is recognised.
type past struct {
	// applied is what [Writer.Apply] set last, nil if it was never called.
	applied *claims
	// inserted is what the row set when it was inserted, nil if no pass has seen the row since.
	inserted *insertion
	// unseen is the same until a pass has seen the row, nil if no writer has changed the row since.
	unseen *insertion
}

// note stores what the row sets at present as its insertion, unless that is known. A [Writer] calls it
// on a clone before it changes that.
func (p *past) note(row Resource) {
	if p.inserted == nil && p.unseen == nil {
		p.unseen = insertionOf(row)
	}
}

// insertion is what a plain insert sets. Other writers have set the rest.
type insertion struct {
	annotations map[string]string
	policies    policies
}

// applyOnly is the insertion of rows that [Writer.Apply] has inserted: claims track what it sets.
var applyOnly = &insertion{}

// insertionOf returns the insertion of a row that was just inserted.
func insertionOf(row Resource) *insertion {
	in := insertion{annotations: row.GetAnnotations(), policies: policiesOf(row)}
	if len(in.annotations) == 0 && in.policies.same(policies{}) {
		return applyOnly
	}
	return &in
}

// has reports whether a plain insert set an annotation to this value.
func (in *insertion) has(key, value string) bool {
	if in == nil {
		return false
	}
	was, ok := in.annotations[key]
	return ok && was == value
}

// typed returns the policies that a plain insert set in fields.
func (in *insertion) typed() policies {
	if in == nil {
		return policies{}
	}
	return in.policies
}

// policies are the policies in the fields of a row.
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
