// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build !linux

package files

import (
	"errors"
	"os"

	"github.com/statekeel/statekeel/internal/signal"
)

// newWatcher returns an error: files are looked at every Config.Poll.
func newWatcher(signal.Signal) (watcher, error) {
	return nil, errors.New("this system has no inotify")
}

// isWritten reports whether a program has a file open for writing, and whether that can be known.
func isWritten(*os.File) (is, known bool) { return false, false }
