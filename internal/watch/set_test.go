// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package watch

import (
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/require"
)

func TestClosingIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ready := newSet(t, perChunk)
		ch := make(chan struct{})
		w := s.Add(ch, 7)
		require.True(t, w.Channel() == ch)
		synctest.Wait()
		require.Empty(t, ready)
		require.Nil(t, s.Take())

		close(ch)
		<-ready
		require.Equal(t, []*Wait[int]{w}, s.Take())
		synctest.Wait()
		require.Empty(t, ready)
		require.Nil(t, s.Take())
		s.Remove(w)
		require.Empty(t, s.chunks, "a goroutine without channels")
	})
}

func TestNilChannelNeverCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ready := newSet(t, perChunk)
		w := s.Add(nil, 1)
		ch := make(chan struct{})
		s.Add(ch, 2)
		synctest.Wait()
		close(ch)
		<-ready
		require.Equal(t, []int{2}, values(s))
		s.Remove(w)
		synctest.Wait()
		require.Empty(t, s.chunks)
	})
}

func TestValueCountsAsClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ready := newSet(t, perChunk)
		ch := make(chan struct{})
		for i := range 3 {
			s.Add(ch, i)
		}
		synctest.Wait()
		for range 3 {
			ch <- struct{}{}
			<-ready
			require.Len(t, s.Take(), 1)
		}
		require.Empty(t, s.chunks)
	})
}

// The goroutine that receives the value checks many members, some of which are removed.
func TestValueIsNotLostWhileOthersAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ready := newSet(t, 8)
		channels := make([]chan struct{}, 9)
		waits := make([]*Wait[int], len(channels))
		for i := range channels {
			channels[i] = make(chan struct{})
			waits[i] = s.Add(channels[i], i)
		}
		synctest.Wait()
		require.Len(t, s.chunks, 2)
		s.mu.Lock()
		channels[7] <- struct{}{}
		for _, w := range waits[:6] {
			w.chunk.remove(w)
		}
		s.mu.Unlock()
		<-ready
		require.Equal(t, []int{7}, values(s))
		synctest.Wait()
		require.True(t, waits[6].chunk == waits[8].chunk, "the last one moves to the open chunk")
		requireSound(t, s)
	})
}

func TestChannelsThatCloseTogetherAreReportedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notified := 0
		s := New[int](func() { notified++ })
		defer s.Stop()
		channels := make([]chan struct{}, perChunk)
		for i := range channels {
			channels[i] = make(chan struct{})
			s.Add(channels[i], i)
		}
		synctest.Wait()
		s.mu.Lock()
		for i := 1; i < perChunk; i += 2 {
			close(channels[i])
		}
		s.mu.Unlock()
		synctest.Wait()
		require.Equal(t, 1, notified)
		require.Len(t, s.Take(), perChunk/2)
	})
}

func TestEndedWaitIsNotKeptInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSet(t, perChunk)
		keep := make(chan struct{})
		s.Add(keep, 0)
		s.Add(keep, 1)
		ch := make(chan struct{})
		gone := []weak.Pointer[Wait[int]]{weak.Make(s.Add(ch, 2)), weak.Make(s.Add(ch, 3))}
		removed := s.Add(make(chan struct{}), 4)
		gone = append(gone, weak.Make(removed))
		synctest.Wait()
		s.Remove(removed)
		close(ch)
		synctest.Wait()
		require.Len(t, s.Take(), 2)
		runtime.GC()
		for i, p := range gone {
			require.Nil(t, p.Value(), "%d", i)
		}
	})
}

func TestStopEndsAllGoroutines(t *testing.T) {
	s, _ := newSet(t, 4)
	var waits []*Wait[int]
	ch := make(chan struct{})
	for i := range 100 {
		waits = append(waits, s.Add(ch, i))
	}
	s.Stop()
	require.Empty(t, s.chunks)
	close(ch)
	s.Add(ch, 100)
	for _, w := range waits[50:] {
		s.Remove(w)
	}
	s.Stop()
	require.Nil(t, s.Take())
}

// The channels that remain of many must not be spread over the goroutines that were needed for all:
// each chunk has one.
func TestFewChannelsCostFewGoroutines(t *testing.T) {
	for name, end := range map[string]func(s *Set[int], w *Wait[int], ch chan struct{}){
		"closed":  func(s *Set[int], w *Wait[int], ch chan struct{}) { close(ch) },
		"removed": func(s *Set[int], w *Wait[int], ch chan struct{}) { s.Remove(w) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newSet(t, perChunk)
				const n = 64 * perChunk
				channels := make([]chan struct{}, n)
				waits := make([]*Wait[int], n)
				for i := range channels {
					channels[i] = make(chan struct{})
					waits[i] = s.Add(channels[i], i)
				}
				synctest.Wait()
				require.Len(t, s.chunks, 64)
				for i := range channels {
					if i%perChunk != 0 {
						end(s, waits[i], channels[i])
					}
				}
				synctest.Wait()
				requireSound(t, s)
				require.LessOrEqual(t, len(s.chunks), 1+4*64/perChunk)
				s.Take()
				for i := 0; i < n; i += perChunk {
					close(channels[i])
				}
				synctest.Wait()
				require.Len(t, s.Take(), 64, "the waits that have moved")
				require.Empty(t, s.chunks)
			})
		})
	}
}

// A goroutine for each channel would cost 2,700 bytes.
func TestChannelCostsLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSet(t, perChunk)
		const n = 20_000
		channels := make([]chan struct{}, n)
		for i := range channels {
			channels[i] = make(chan struct{})
		}
		before := inUse()
		for i, ch := range channels {
			s.Add(ch, i)
		}
		synctest.Wait()
		each := (inUse() - before) / n
		t.Logf("%d bytes a channel", each)
		require.Less(t, each, uint64(800))
	})
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
