// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package commands

// lock does nothing: this system has no flock.
func lock(string) (unlock func(), err error) { return func() {}, nil }
