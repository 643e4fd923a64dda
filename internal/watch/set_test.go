// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package watch

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestClosingIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ready := newSet(t, perChunk)
		ch := make(chan struct{})
		never := s.Add(nil, 1)
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
		s.Remove(never)
		synctest.Wait()
		require.Empty(t, s.chunks, "a goroutine without channels")
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

func TestAnyClosedFindsOneClosedChannel(t *testing.T) {
	open := make(chan struct{})
	require.False(t, AnyClosed(nil))
	require.False(t, AnyClosed([]<-chan struct{}{nil, open}))
	require.True(t, AnyClosed([]<-chan struct{}{nil, open, Closed}))
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
