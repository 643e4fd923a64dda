// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package pace decides when a loop may begin its next pass, and how long a turn of single
// operations may be. It knows rounds by plain numbers, and waits, for a limiter or until writes
// have gathered, on the goroutine of its caller. An Alarm wakes the loop at a time.
package pace
