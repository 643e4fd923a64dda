// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// meter reads what this process and the ones that it started take, without the threads that only measure.
type meter struct{ threads []int }

// cpu returns the CPU time so far, in user mode and in the kernel. That of a process that this one started is in it
// once that has ended.
func (m *meter) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if err := unix.Getrusage(who, &r); err != nil {
			return 0, fmt.Errorf("read the CPU time: %w", err)
		}
		sum += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	for _, thread := range m.threads {
		// The number of the clock of a thread is made of the number of the thread: see CPUCLOCK_PERTHREAD_MASK.
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^thread<<3|6), &t); err != nil {
			return 0, fmt.Errorf("read the CPU time of a thread that measures: %w", err)
		}
		sum -= time.Duration(t.Nano())
	}
	return sum, nil
}

// reading is what was taken until a moment.
type reading struct {
	at  time.Time
	cpu time.Duration
	all time.Duration // the CPU time of the whole machine that was not idle
}

func (m *meter) read() (r reading, err error) {
	r.at = time.Now()
	if r.cpu, err = m.cpu(); err != nil {
		return r, err
	}
	r.all, err = busy()
	return r, err
}

// others returns which share of the machine others took between two readings: all that is not the contender and the
// processes that it started. The kernel's own threads are among the others, also when they work for the contender.
func (r reading) others(before reading) float64 {
	wall := r.at.Sub(before.at) * time.Duration(runtime.NumCPU())
	taken := (r.all - before.all) - (r.cpu - before.cpu)
	return min(max(float64(taken)/float64(wall), 0), 1)
}

// busy returns how long the processors of the machine were not idle.
func busy() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	all, _, _ := bytes.Cut(stat, []byte{'\n'})
	// The line begins with its name. Its times are user, nice, system, idle, waiting for input or output, interrupts of
	// both kinds, and what a hypervisor took; what follows is counted in these.
	fields := bytes.Fields(all)
	if len(fields) < 9 {
		return 0, fmt.Errorf("read the time of the processors in %q", all)
	}
	var ticks int64
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the time of the processors: %w", err)
		}
		if i != 3 && i != 4 {
			ticks += n
		}
	}
	const ticksPerSecond = 100 // USER_HZ of every architecture of Go
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// allocated returns how many bytes this process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// resident returns the resident memory of this process, in bytes.
func resident() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("VmRSS:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("the kernel does not tell the resident memory")
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10, err
}
