// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package filewatch

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// mustBeQuiet returns how long an open file must be unchanged before it is read. It takes a lease, which the kernel
// gives only while no program has the file open for writing: until the file is closed, an open for writing waits.
// Events of inotify would not show a file that was open before. There is no lease for the file of another user without
// CAP_LEASE, nor on most network file systems.
func mustBeQuiet(file *os.File) time.Duration {
	_, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, unix.EAGAIN):
		return patience
	}
	return unseen
}
