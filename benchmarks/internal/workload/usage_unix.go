// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build unix

package workload

import (
	"syscall"
	"time"
)

// processUsage returns the CPU time and the context switches of this process so far.
func processUsage() (cpu time.Duration, switches int64) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		// Only a bad argument can make it fail.
		panic("getrusage: " + err.Error())
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), int64(r.Nvcsw) + int64(r.Nivcsw)
}
