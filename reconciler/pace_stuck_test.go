// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// Slow or stuck operations do not count as load: a single write beside them is as fast as without them.
func TestSingleWriteBesideSlowOperationsIsNotKeptWaiting(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		for _, n := range []uint64{6, 8, 64} {
			t.Run(fmt.Sprintf("%d, timeout %s", n, timeout), func(t *testing.T) {
				inBubble(t, func(e *env) {
					stuck := e.target.stick(ids(1, n)...)
					e.put(1, ids(1, n)...)
					e.pass(10 * time.Second)
					start := time.Now()
					for value := range 100 {
						revision := e.put(value, 1000)
						_, _, err := e.loop.WaitUntilReconciled(e.Context(), 0)
						require.NoError(e, err)
						_, err = e.loop.WaitFor(e.Context(), reconciler.Applied, e.get(1000))
						require.NoError(e, err)
						require.Equal(e, reconciler.StatusKindDone, e.kind(1000), "revision %d", revision)
					}
					require.Zero(e, time.Since(start), "for 100 single writes")
					for id := range n {
						stuck.free(id + 1)
					}
					e.pass(time.Minute)
					e.eachDone()
				}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = 70, timeout }), reconciler.WithoutPruning())
			})
		}
	}
}

// Batches of one group follow each other without a pause. Only items with a due time wait for
// others that come due soon.
func TestBatchesOfOneGroupFollowEachOther(t *testing.T) {
	eachBatchAnd(t, serially(byNote), func(e *env) {
		for id := range uint64(20) {
			e.putIn("a", 1, id)
		}
		e.pass(time.Minute)
		e.eachDone()
		start := time.Now()
		revision := e.remove(ids(0, 19)...)
		_, err := e.loop.Wait(e.Context(), revision, reconciler.Applied)
		require.NoError(e, err)
		require.Zero(e, time.Since(start), "for 20 deletions")
		synctest.Wait()
		e.eachDone()
	})
}
