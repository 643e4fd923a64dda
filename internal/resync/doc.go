// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package resync looks at the target, and finds what it has that the table does not want, and the other way round.
//
// A [Resync] is a stage of the loop, which calls [Resync.Step] at the end of each pass. A look is due when the table is
// initialised, at an interval, on request, and after a failure with backoff. Where the target is listed, it also waits until
// all that the initialised table had was attempted. A look is one of two:
//
//   - The program prunes the target itself, when no operation runs: the peer's Prune. That is one call.
//   - The target is listed on a goroutine of its own. Then each key is judged, unless an operation of it has ended since the
//     listing began, which may show what was before, or the core has an entry of it. An orphan is listed, and no row wants
//     it: the loop deletes it. A row that is Done is missing if it was not listed, and different if the listed object is not
//     equal to it: the loop applies it again, a repair.
//
// If the loop adopts, the first listing comes before everything else, and the Resync keeps it. Each row that is
// about to be applied is compared with what was listed: if they are equal, no operation is called.
//
// The loop's goroutine owns a Resync. What the listing goroutine writes, it hands over when it ends.
package resync
