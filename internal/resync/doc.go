// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package resync looks at the target, and finds what it has that the table does not want, and the other way round.
//
// A [Resync] is a stage of the loop, which calls [Resync.Step] at the end of each pass. A look is due when the table is
// initialised, at an interval, on request, and after a failure with backoff. Either the program prunes the target itself in
// one call, when no operation runs. Or the target is listed on a goroutine of its own, when all that the initialised table
// had was attempted. Then each key is judged, unless an operation of it has ended since the listing began, which may show
// what was before, or the core has an entry of it. What no row wants is an orphan: the loop deletes it. A row that is Done
// is missing if it was not listed, and different if the listed object is not equal to it: the loop repairs it.
//
// The loop's goroutine owns a Resync. What the listing goroutine writes, it hands over when it ends.
package resync
