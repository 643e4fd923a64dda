// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package health reports the condition of a loop to hive's health, when it changes, in short and with a bounded number of
// examples.
//
// The loop's goroutine makes a [Condition] at the end of a pass, and reports it with a [Reporter] if it is news. The
// reporter has a timer for what the loop cannot report: a call that it has been in for too long. The state is the last
// report. The package never calls an operation and never changes what the loop does.
package health
