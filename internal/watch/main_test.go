// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package watch

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newSet returns a set with chunks of the given size, and a channel that receives when there is
// something to take. The set is stopped when the test ends.
func newSet(t testing.TB, perChunk int) (*Set[int], chan struct{}) {
	ready := make(chan struct{}, 1)
	s := New[int](func() {
		select {
		case ready <- struct{}{}:
		default:
		}
	})
	s.perChunk = perChunk
	t.Cleanup(s.Stop)
	return s, ready
}

// values takes what is closed, and returns the values; nil if there is nothing.
func values(s *Set[int]) (out []int) {
	for _, w := range s.Take() {
		out = append(out, w.Value)
	}
	return out
}

// requireSound checks that the parts of a set agree, and that it has no more chunks than promised.
// The goroutines must be waiting.
func requireSound(t require.TestingT, s *Set[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for c := range s.chunks {
		live := 0
		for _, w := range c.members {
			if w.chunk == c {
				live++
			}
		}
		n += live
		require.Equal(t, c.live, live)
		require.Positive(t, live, "a goroutine that waits for nothing")
		require.LessOrEqual(t, len(c.members), s.perChunk)
		require.Less(t, len(c.members), 2*live, "too many removed channels")
		require.True(t, c == s.open || !s.few(live), "a thin chunk of %d", live)
	}
	require.True(t, s.open == nil || len(s.open.members) > 0)
	require.LessOrEqual(t, len(s.chunks), 1+4*n/s.perChunk)
	for _, w := range s.closed {
		require.Nil(t, w.chunk, "a closed wait in a chunk")
	}
}
