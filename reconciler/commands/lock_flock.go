// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package commands

import (
	"os"
	"syscall"
)

// lock locks a directory for other programs that call it.
func lock(directory string) (unlock func(), err error) {
	file, err := os.Open(directory)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}
