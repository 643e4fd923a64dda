// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestApplyingTheSameEvery100msCausesNoOutsideCall(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, func(b *bucket) { b.SetAnnotation("team", "net") })
		calls := 0
		for range 600 {
			e.write(func(_ managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
				b := named(name)
				b.Size = 1
				b.SetAnnotation("team", "net")
				_, err := managed.NewWriter(e.config()).Apply(wtxn, b)
				require.NoError(e, err)
			})
			pass(90 * time.Millisecond)
			calls += len(e.cloud.take(e.names[0]))
		}
		// A poll a minute, which connects and observes.
		require.LessOrEqual(e, calls, 4)
	}, nil)
}
