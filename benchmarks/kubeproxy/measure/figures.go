// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Figures are what a run measured. Phases that it did not have are nil.
type Figures struct {
	Contender string            `json:"contender"`
	Settings  map[string]string `json:"settings,omitempty"` // of the contender
	Versions  map[string]string `json:"versions,omitempty"`
	Machine   Machine           `json:"machine"`
	Shape
	First   *Load    `json:"first,omitempty"`
	Quiet   *Changes `json:"quiet,omitempty"`
	Churn   *Changes `json:"churn,omitempty"`
	Memory  *Memory  `json:"memory,omitempty"` // of the process that had the phases above
	Restart *Load    `json:"restart,omitempty"`
	// RestartMemory is that of the process that started on the kernel that the one before had left.
	RestartMemory *Memory `json:"restartMemory,omitempty"`
}

// Load is how a contender that has just started makes the kernel equal to all services.
type Load struct {
	// Kernel is from the last input to the moment when the kernel had all that it lacked. It is 0 after a restart on a
	// kernel that lacks nothing.
	Kernel Millis `json:"kernelMs"`
	// KernelFromFirst is the same from the first input: a contender may begin to write before it has seen all.
	KernelFromFirst Millis `json:"kernelFromFirstMs"`
	// Believed is from the last input to the moment when the contender said that the kernel had all.
	Believed          Millis `json:"believedMs"`
	BelievedFromStart Millis `json:"believedFromStartMs"`
	// LastWrite is from the last input to the last thing that the contender wrote, before it was idle.
	LastWrite Millis `json:"lastWriteMs"`
	CPU       Millis `json:"cpuMs"`
	Others    Share  `json:"others"`
	Writes    Writes `json:"writes"`
	After     Kernel `json:"after"` // what the kernel had at the end
}

// Changes is how long single changes of an endpoint took until they were in the kernel, and what they cost.
type Changes struct {
	PerSecond float64 `json:"perSecond,omitempty"` // 0: the next one once the contender was idle
	Count     int     `json:"count"`
	P50       Millis  `json:"p50Ms"`
	P90       Millis  `json:"p90Ms"`
	P99       Millis  `json:"p99Ms"`
	Max       Millis  `json:"maxMs"`
	// Passed is how many endpoints were replaced before the kernel had them. They waited for the one that it got.
	Passed int `json:"passed"`
	// Late is how long after its moment the latest change was made: its contender kept the caller, or the machine was
	// busy.
	Late Millis `json:"lateMs"`
	// CPUEach is the CPU time for each change, with all that the contender did meanwhile.
	CPUEach Millis `json:"cpuEachMs"`
	// Idle is the CPU time in milliseconds that the contender took in a second without a change, before the phase.
	Idle   Millis `json:"idleCPUMsPerSecond"`
	Others Share  `json:"others"`
	Writes Writes `json:"writes"`
	After  Kernel `json:"after"`
}

// Share is how much of the machine others took meanwhile, from 0 to 1: all that is not the contender and the processes
// that it started. The kernel's own threads are among the others, also when they work for the contender, and so is what
// watches the kernel.
type Share float64

func (s Share) String() string { return fmt.Sprintf("%.0f%%", float64(s)*100) }

// Memory is resident memory, in MiB.
type Memory struct {
	Before float64 `json:"beforeMiB"` // of this process before the contender started: the program, and the workload
	Loaded float64 `json:"loadedMiB"` // after the first load
	Now    float64 `json:"nowMiB"`    // at the end
	Most   float64 `json:"mostMiB"`   // of this process, at any moment
	Heap   float64 `json:"heapMiB"`   // at the end, of what this process refers to; the rest is garbage, and the program
	Child  float64 `json:"childMiB"`  // of a single process that the contender started, at any moment seen
	// Together is that of this process and of those that it started at one moment, at most of all those seen.
	Together float64 `json:"togetherMiB"`
}

// Machine is what a run was made on.
type Machine struct {
	CPU    string  `json:"cpu"`
	Cores  int     `json:"cores"`
	Kernel string  `json:"kernel"`
	Go     string  `json:"go"`
	When   string  `json:"when"`
	Busy   float64 `json:"loadAverage"` // over the minute before the run, with what compare built and ran then
}

// Millis is a time in milliseconds.
type Millis float64

func millis(d time.Duration) Millis { return Millis(math.Round(float64(d)/1e3) / 1e3) }

func (m Millis) String() string {
	switch {
	case m == 0:
		return "0"
	case m < 1:
		return fmt.Sprintf("%.0f us", float64(m)*1e3)
	case m < 1000:
		return fmt.Sprintf("%.3g ms", float64(m))
	}
	return fmt.Sprintf("%.3g s", float64(m)/1e3)
}

// latencies fills in what the times until the kernel had them say.
func (c *Changes) latencies(times []time.Duration) {
	slices.Sort(times)
	at := func(share float64) Millis {
		if len(times) == 0 {
			return 0
		}
		// The smallest time that so large a share of all does not exceed.
		return millis(times[max(0, int(math.Ceil(share*float64(len(times))))-1)])
	}
	c.P50, c.P90, c.P99, c.Max = at(0.5), at(0.9), at(0.99), at(1)
}

// Text renders the figures for people.
func (f *Figures) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s%s%s: %d services of %d endpoints", f.Contender, Pairs(f.Versions), Pairs(f.Settings), f.Services,
		f.Endpoints)
	line("%s, %d cores, Linux %s, %s, %s, load average %.2f", f.Machine.CPU, f.Machine.Cores, f.Machine.Kernel,
		f.Machine.Go, f.Machine.When, f.Machine.Busy)
	load := func(name string, l *Load) {
		if l == nil {
			return
		}
		line("%-8s kernel has all %v after the last input (%v after the first); believed after %v, %v after the start; "+
			"CPU %v, others took %v of the machine", name, l.Kernel, l.KernelFromFirst, l.Believed, l.BelievedFromStart, l.CPU,
			l.Others)
		line("         last write %v after the last input; wrote %s", l.LastWrite, l.Writes)
		line("         the kernel has %d tables, %d chains, %d rules, %d sets, %d elements", l.After.Tables,
			l.After.Chains, l.After.Rules, l.After.Sets, l.After.Elements)
	}
	changes := func(name string, c *Changes) {
		if c == nil {
			return
		}
		line("%-8s %d changes, %g a second: p50 %v, p90 %v, p99 %v, max %v; CPU %v each (idle: %v a second), "+
			"others took %v of the machine", name, c.Count, c.PerSecond, c.P50, c.P90, c.P99, c.Max, c.CPUEach, c.Idle, c.Others)
		line("         overtaken %d, made late by up to %v; wrote %s", c.Passed, c.Late, c.Writes)
	}
	memory := func(m *Memory) {
		if m == nil {
			return
		}
		line("memory   %.0f MiB before, %.0f loaded, %.0f at the end, of which %.0f are used, %.0f at most; a child %.0f, all "+
			"together %.0f", m.Before, m.Loaded, m.Now, m.Heap, m.Most, m.Child, m.Together)
	}
	load("first", f.First)
	changes("quiet", f.Quiet)
	changes("churn", f.Churn)
	memory(f.Memory)
	load("restart", f.Restart)
	memory(f.RestartMemory)
	return b.String()
}

func (w Writes) String() string {
	return fmt.Sprintf("%d commits: +%d -%d rules, +%d -%d sets, +%d -%d elements, +%d -%d chains, %d others", w.Commits,
		w.NewRules, w.DeletedRules, w.NewSets, w.DeletedSets, w.NewElements, w.DeletedElements, w.NewChains,
		w.DeletedChains, w.Other)
}

// Pairs returns the names and values of a map in the order of the names.
func Pairs(m map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, ", %s %s", name, m[name])
	}
	return b.String()
}
