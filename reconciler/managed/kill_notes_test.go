// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// noteZone sets the annotation that a create sets besides the external name.
func noteZone(b *bucket, name string) { b.SetAnnotation(zone, "of "+name) }

// requireZone requires a row with an external name to have the annotation that its create has set. It
// is for external names that the outside system chooses: others are known without a create.
func requireZone(t require.TestingT, b *bucket) {
	if name := managed.GetExternalName(b); name != "" {
		require.Equal(t, "of "+name, b.Annotations[zone], "%q has lost what the create noted: %v", b.Name, b.Annotations)
	}
}
