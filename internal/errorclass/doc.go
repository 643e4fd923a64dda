// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package errorclass counts failures by class, and decides which are logged: one of each class at most every 30 seconds.
//
// Its state is the classes, whose number is bounded, and the lines that are not logged yet. The loop's goroutine adds
// failures, takes the lines and logs them; other goroutines may list the classes. This package has no logger and no lock.
package errorclass
