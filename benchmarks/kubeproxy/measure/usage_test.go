// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"io"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestThreadsThatMeasureAreFree burns CPU time in one thread, which is subtracted.
func TestThreadsThatMeasureAreFree(t *testing.T) {
	const burn = 200 * time.Millisecond
	thread, burnt, end := make(chan int), make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		for used := int64(0); used < burn.Nanoseconds(); {
			var now unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
				panic(err)
			}
			used = now.Nano()
		}
		close(burnt)
		<-end // the clock of a thread that ended cannot be read
	}()
	defer close(end)
	free := meter{threads: []int{<-thread}}
	<-burnt
	with, err := (&meter{}).cpu()
	if err != nil {
		t.Fatal(err)
	}
	without, err := free.cpu()
	if err != nil {
		t.Fatal(err)
	}
	if with < burn || with-without < burn-10*time.Millisecond {
		t.Errorf("the CPU time is %v with the thread and %v without it", with, without)
	}
}

// TestCPUOfChildren runs a program that takes CPU time, as kube-proxy runs nft.
func TestCPUOfChildren(t *testing.T) {
	before, err := (&meter{}).cpu()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	after, err := (&meter{}).cpu()
	if err != nil {
		t.Fatal(err)
	}
	took := child.ProcessState.UserTime() + child.ProcessState.SystemTime()
	if took < 10*time.Millisecond || after-before < took {
		t.Errorf("the CPU time is %v, of which a child took %v", after-before, took)
	}
}

func TestOthers(t *testing.T) {
	n := time.Duration(runtime.NumCPU())
	begun := reading{at: time.Now(), cpu: time.Second, all: time.Minute}
	for _, test := range []struct {
		cpu, all time.Duration
		want     Share
	}{
		{0, 0, 0},
		{2 * n * time.Second, 5 * n * time.Second, 0.3},
		{5 * n * time.Second, 2 * n * time.Second, 0}, // the kernel counts all in ticks
		{0, 11 * n * time.Second, 1},
	} {
		after := reading{at: begun.at.Add(10 * time.Second), cpu: begun.cpu + test.cpu, all: begun.all + test.all}
		if got := after.others(begun); got != test.want {
			t.Errorf("others took %v of %v, without %v", got, test.all, test.cpu)
		}
	}
}

func TestMemoryOfChildren(t *testing.T) {
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	// It runs once it answers.
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}

	s := &sampler{folder: "/proc/self", name: "not cat"}
	s.look()
	alone := &sampler{folder: "/proc/self", name: "cat"} // as if that had not executed its program yet
	alone.look()
	own, most, err := resident()
	if err != nil {
		t.Fatal(err)
	}
	if c := s.children; c < 100<<10 || c > 100<<20 {
		t.Errorf("cat takes %d bytes", c)
	}
	if alone.children != 0 || alone.together == 0 || alone.together > most {
		t.Errorf("this process takes %d bytes, at most %d; without its children it seems to take %d", own, most,
			alone.together)
	}
	if s.together <= s.children {
		t.Errorf("this process and cat take %d bytes, cat %d", s.together, s.children)
	}

	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}
