// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build unix

package commands

import (
	"io/fs"
	"os"
	"syscall"
)

// isOurs reports whether a file belongs to the user that this process acts for.
func isOurs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
