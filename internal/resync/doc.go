// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package resync compares what the target has with the table.
//
// A [Resync] is a stage of the loop. It has the target listed on a goroutine of its own, and sorts what it finds:
//
//   - An orphan is listed, and no row wants it. The loop deletes it.
//   - A row is missing if it is Done and was not listed, and different if the listed object is not equal to it. The
//     loop applies it again: a repair.
//   - What is equal is left alone.
//
// With OrphansOnly no row is judged. Otherwise a row is judged only if it is Done and the core has no entry of its
// key, and not by a listing during which an operation of its key ended: the listing may show what was before.
//
// If the loop adopts, the first listing comes before everything else, and the Resync keeps it. Each row that is
// about to be applied is compared with what was listed: if they are equal, no operation is called.
//
// The loop's goroutine owns a Resync. What the listing goroutine writes, it hands over when it ends. A Resync decides
// neither when the target is listed, which package prune does, nor when a repair runs, which package refresh does.
package resync
