// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build !linux

package main

import (
	"errors"
	"runtime"
)

// runAgent returns an error: netagent needs Linux.
func runAgent(settings, []string) (int, error) {
	return 0, errors.New("netagent runs on Linux only: it works on network namespaces, and " + runtime.GOOS + " has none")
}
