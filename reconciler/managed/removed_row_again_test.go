// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// removedForAnother sets up removed rows whose resources cannot be deleted, and rows of the same keys
// that name other resources.
func (e *env) removedForAnother(prepare func(b *bucket)) {
	e.Helper()
	e.settle(1)
	e.others()
	e.cloud.fail("delete", errors.New("busy"))
	e.removeDirectly()
	pass(3 * time.Second)
	e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		_, err := w.Apply(wtxn, named(name), func(b *bucket) {
			b.Size = 1
			managed.SetExternalName(b, "other-"+name)
			prepare(b)
		})
		require.NoError(e, err)
	})
	pass(5 * time.Second)
}

func TestRowsRemovedOneAfterAnotherLeakNothing(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(b *bucket)
		stays   []int
	}{
		"never seen": {func(*bucket) {}, []int{1}},
		"ours":       {func(b *bucket) { b.Finalizers = []string{managed.FinalizerName} }, nil},
		"orphan":     {func(b *bucket) { b.DeletionPolicy = managed.DeletionOrphan }, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.removedForAnother(test.prepare)
				e.removeDirectly()
				pass(5 * time.Second)
				e.cloud.before("delete", nil)
				pass(5 * time.Minute)
				e.holds(-1)
				for _, name := range e.names {
					require.Equal(e, test.stays, e.cloud.holds("other-"+name))
				}
			}, noGrace)
		})
	}
}
