// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package refresh marks rows that are Done as Refreshing, so that the loop applies them again: rows
// whose status is older than an interval, and on request all rows.
//
// A [Refresher] has a goroutine of its own, which writes the marks in batches, one transaction
// each. It marks the next batch when the loop has dealt with the last one; the loop reports its
// progress with NotePass and NoteCalls. The state of a Refresher is the position in the table, the
// sizes of batches and the wait for the loop. It never calls an operation: the loop reads a marked
// row as a change.
package refresh
