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
		n += len(c.members)
		require.NotEmpty(t, c.members, "a goroutine that waits for nothing")
		require.LessOrEqual(t, len(c.members), s.perChunk)
		require.LessOrEqual(t, c.stale, len(c.members), "too many removed channels")
		require.True(t, c == s.open || 4*len(c.members) > s.perChunk, "a thin chunk of %d", len(c.members))
		for i, w := range c.members {
			require.True(t, w.chunk == c && w.index == i, "a member with a wrong index")
		}
	}
	require.True(t, s.open == nil || len(s.open.members) > 0)
	require.LessOrEqual(t, len(s.chunks), 1+4*n/s.perChunk)
	for i, w := range s.closed {
		require.True(t, w.chunk == nil && w.index == i, "a closed wait with a wrong index")
	}
}
