// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"maps"
	"slices"
)

// sameMeta reports whether two versions of a row have the same finalizers, conditions, annotations,
// policies, and the record.
func sameMeta(a, b Resource) bool {
	ma, mb := a.meta(), b.meta()
	return ma.lineage.record == mb.lineage.record && ma.DeletionPolicy == mb.DeletionPolicy &&
		slices.Equal(ma.ManagementPolicies, mb.ManagementPolicies) &&
		slices.Equal(a.GetFinalizers(), b.GetFinalizers()) &&
		slices.Equal(a.GetConditions(), b.GetConditions()) &&
		maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}
