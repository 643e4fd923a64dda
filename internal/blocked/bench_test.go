// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package blocked

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkBlocked has 100,000 keys that wait for as many channels, or for one. In "together", an
// operation is to close all channels and to release all keys. In "settle", an operation is to block
// all keys. In "one-by-one", an operation is to close one channel, to release its key and to block it
// again.
func BenchmarkBlocked(b *testing.B) {
	const n = 100_000
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%08d", i)
	}
	for _, distinct := range []int{1, n} {
		b.Run(fmt.Sprintf("together/%d", distinct), func(b *testing.B) {
			var memory uint64
			for b.Loop() {
				b.StopTimer()
				channels := openChannels(distinct)
				x := New()
				before := heapAndStacks()
				blockAll(x, keys, channels)
				memory += heapAndStacks() - before
				b.StartTimer()
				for _, ch := range channels {
					close(ch)
				}
				for left := n; left > 0; {
					<-x.Released()
					x.Release(func(string) { left-- })
				}
				b.StopTimer()
				x.Stop()
				b.StartTimer()
			}
			b.ReportMetric(float64(memory)/float64(b.N)/n, "B/key")
		})
	}
	b.Run("settle", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			channels := openChannels(n)
			x := New()
			b.StartTimer()
			blockAll(x, keys, channels)
			b.StopTimer()
			x.Stop()
			b.StartTimer()
		}
	})
	b.Run("one-by-one", func(b *testing.B) {
		channels := openChannels(n)
		x := New()
		blockAll(x, keys, channels)
		heapAndStacks()
		i := 0
		for b.Loop() {
			at := i * 7919 % n
			i++
			close(channels[at])
			<-x.Released()
			x.Release(func(string) {})
			channels[at] = make(chan struct{})
			x.Set(keys[at], []<-chan struct{}{channels[at]})
		}
		x.Stop()
	})
}

func blockAll(x *Keys, keys []string, channels []chan struct{}) {
	for i, key := range keys {
		x.Set(key, []<-chan struct{}{channels[i%len(channels)]})
	}
}

func heapAndStacks() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
