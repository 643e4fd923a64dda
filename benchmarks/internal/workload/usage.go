// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"runtime"
	"runtime/debug"
	"time"
)

// usage is what a section of a run took of the process: contender, writer and garbage collector together.
type usage struct {
	wall     time.Duration
	cpu      time.Duration // user and system
	switches int64         // context switches, voluntary and not
	allocs   uint64
	bytes    uint64 // allocated, whether or not freed since
}

// instant is a reading of the process's counters.
type instant struct {
	at       time.Time
	cpu      time.Duration
	switches int64
	mem      runtime.MemStats
}

// now reads the clock last: a section that begins here does not pay for the reading.
func now() *instant {
	var i instant
	runtime.ReadMemStats(&i.mem)
	i.cpu, i.switches = processUsage()
	i.at = time.Now()
	return &i
}

// elapsed returns the usage since i; it reads the clock first.
func (i *instant) elapsed() usage {
	wall := time.Since(i.at)
	cpu, switches := processUsage()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return usage{
		wall:     wall,
		cpu:      cpu - i.cpu,
		switches: switches - i.switches,
		allocs:   mem.Mallocs - i.mem.Mallocs,
		bytes:    mem.TotalAlloc - i.mem.TotalAlloc,
	}
}

// collectGarbage collects twice: what a finalizer or a sync.Pool kept alive in the first collection is freed
// in the second.
func collectGarbage() {
	runtime.GC()
	runtime.GC()
}

// heapInUse returns the bytes of live objects.
func heapInUse() float64 {
	collectGarbage()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return float64(mem.HeapAlloc)
}

// memoryInUse returns the bytes that the heap and the stacks of goroutines occupy, with the gaps between
// objects.
func memoryInUse() float64 {
	collectGarbage()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return float64(mem.HeapInuse + mem.StackInuse)
}

// returnMemory returns free memory to the system, so that the runtime does not do that during an idle
// window.
func returnMemory() {
	debug.FreeOSMemory()
}
