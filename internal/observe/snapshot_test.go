// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/status"
)

// coroutines returns how many goroutines are coroutines of iter.Pull2.
func coroutines() int {
	b := make([]byte, 1<<22)
	return strings.Count(string(b[:runtime.Stack(b, true)]), "[coroutine")
}

// The main cursor reads 20,000 rows of its snapshot a call. If the last row of the unread range is the last one
// of a call, everything is read, and the catch-up cursor ends: then nothing of the snapshot is kept.
func TestNothingOfTheSnapshotIsKeptAfterTheCatchUpCursor(t *testing.T) {
	const pending, stride = 6, 20_000
	before := coroutines()
	// With rounds of one, the call that hands over the last pending row reads stride-1 others.
	for _, others := range []int{stride, stride - 1 + stride, stride + stride} {
		e := newEnv(t, 1)
		e.put(status.Pending, ids(1, pending)...)
		e.put(status.Done, ids(pending+1, pending+others)...)
		began := false
		for {
			planned, _ := e.begin()
			began = began || e.CatchingUp()
			e.end(len(planned), slow)
			for _, id := range planned {
				e.put(status.Done, uint64(id))
			}
			if len(planned) == 0 && !e.Behind() {
				break
			}
		}
		require.True(t, began)
		require.False(t, e.CatchingUp())
		require.Equal(t, e.revision(), e.Revision())
		require.Equal(t, before, coroutines(), "others: %d", others)
	}
}
