// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// noteZone is what a create notes beside the name of what it created, in an annotation of its own.
func noteZone(b *bucket, name string) { b.SetAnnotation(zone, "of "+name) }

// requireZone requires a row that has the name of what was created to have what was noted with it. It
// is for names that are chosen outside: others are known without a create.
func requireZone(t require.TestingT, b *bucket) {
	if name := managed.GetExternalName(b); name != "" {
		require.Equal(t, "of "+name, b.Annotations[zone], "%q has lost what the create noted: %v", b.Name, b.Annotations)
	}
}
