// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package watch

import (
	"fmt"
	"testing"
)

// BenchmarkChunkSizes has the figures behind perChunk, for 100,000 channels. In "together", an
// operation is to close all channels and then to take all. In "one by one", an operation is to close
// one channel and to take it.
func BenchmarkChunkSizes(b *testing.B) {
	const n = 100_000
	for _, size := range []int{1, 15, 31, 63, 127, 255} {
		b.Run(fmt.Sprintf("together/%d", size), func(b *testing.B) {
			var memory uint64
			for b.Loop() {
				b.StopTimer()
				s, ready := newSet(b, size)
				channels := open(n)
				before := inUse()
				fill(s, channels)
				memory += inUse() - before
				b.StartTimer()
				for _, ch := range channels {
					close(ch)
				}
				for left := n; left > 0; {
					<-ready
					left -= len(s.Take())
				}
				b.StopTimer()
				s.Stop()
				b.StartTimer()
			}
			b.ReportMetric(float64(memory)/float64(b.N)/n, "B/channel")
		})
		b.Run(fmt.Sprintf("one-by-one/%d", size), func(b *testing.B) {
			s, ready := newSet(b, size)
			channels := open(n)
			fill(s, channels)
			i := 0
			for b.Loop() {
				// The stride spreads the closings over the chunks. A new channel replaces the closed
				// one.
				at := i * 7919 % n
				i++
				close(channels[at])
				<-ready
				s.Take()
				channels[at] = make(chan struct{})
				s.Add(channels[at], at)
			}
			s.Stop()
		})
	}
}

// BenchmarkAdd measures Add, with the goroutines of the set running.
func BenchmarkAdd(b *testing.B) {
	s, _ := newSet(b, perChunk)
	ch := make(chan struct{})
	for i := 0; b.Loop(); i++ {
		s.Add(ch, i)
	}
	s.Stop()
}

func open(n int) []chan struct{} {
	channels := make([]chan struct{}, n)
	for i := range channels {
		channels[i] = make(chan struct{})
	}
	return channels
}

func fill(s *Set[int], channels []chan struct{}) {
	for i, ch := range channels {
		s.Add(ch, i)
	}
}
