// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
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

// others returns how much of the machine others took between two readings.
func (r reading) others(before reading) Share {
	wall := r.at.Sub(before.at) * time.Duration(runtime.NumCPU())
	taken := (r.all - before.all) - (r.cpu - before.cpu)
	return Share(math.Round(min(max(float64(taken)/float64(wall), 0), 1)*1e3) / 1e3)
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

// resident returns the resident memory of this process, in bytes: now, and at most so far.
func resident() (now, most int64, err error) {
	now, most, _, err = residentOf("/proc/self/status")
	return now, most, err
}

func residentOf(file string) (now, most int64, name string, err error) {
	status, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, "", err
	}
	for line := range bytes.Lines(status) {
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimSpace(value)
		var to *int64
		switch string(field) {
		case "Name":
			name = string(value)
			continue
		case "VmRSS":
			to = &now
		case "VmHWM":
			to = &most
		default:
			continue
		}
		kib, err := strconv.ParseInt(string(bytes.TrimSuffix(value, []byte(" kB"))), 10, 64)
		if err != nil {
			return 0, 0, "", fmt.Errorf("read %s of %s: %w", field, file, err)
		}
		*to = kib << 10
	}
	return now, most, name, nil
}

// sampler looks every so often how much memory a process takes and those that it started. It runs in another process:
// that threads of Go wake up for it would count as the contender's CPU time, 10 ms a second. The usage of children that
// the kernel adds up would not tell: it counts a child's memory from before it executed another program, when it still
// had all memory of its parent.
type sampler struct {
	folder   string // of the process, in /proc
	name     string // of the process
	children int64  // bytes of one of those that it started, at most
	together int64  // bytes of the process and of the others at one moment, at most
	stopping chan struct{}
	ended    chan struct{}
}

const sampleEvery = 20 * time.Millisecond

func sample(process int) (*sampler, error) {
	s := &sampler{
		folder:   fmt.Sprintf("/proc/%d", process),
		stopping: make(chan struct{}),
		ended:    make(chan struct{}),
	}
	var err error
	if _, _, s.name, err = residentOf(s.folder + "/status"); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.ended)
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			s.look()
			select {
			case <-ticker.C:
			case <-s.stopping:
				return
			}
		}
	}()
	return s, nil
}

func (s *sampler) stop() {
	close(s.stopping)
	<-s.ended
}

func (s *sampler) look() {
	now, _, _, err := residentOf(s.folder + "/status")
	if err != nil {
		return // the next look may do better
	}
	lists, _ := filepath.Glob(s.folder + "/task/*/children")
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue // the thread ended
		}
		for child := range bytes.FieldsSeq(children) {
			rss, most, name, err := residentOf("/proc/" + string(child) + "/status")
			if err != nil || name == s.name {
				continue // it ended, or has not executed its program yet
			}
			now += rss
			s.children = max(s.children, most)
		}
	}
	s.together = max(s.together, now)
}
