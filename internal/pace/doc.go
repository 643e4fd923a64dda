// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package pace decides when a loop may begin its next pass, and how long a turn of single operations may take: the part of
// a round in which operations run one at a time on the loop's goroutine.
//
// The state of a [Pace] is a few numbers about the last rounds. It blocks the loop's goroutine while a limiter has no token
// or while writes gather. An [Alarm] is a timer that wakes the loop. Package pace does not know the core, the table or the
// operations.
package pace
