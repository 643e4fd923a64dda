// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
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
