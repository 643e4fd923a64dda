// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package refresh lets the loop apply rows again that have not changed: each row about once an
// interval, and on request all rows.
//
// A [Refresher] has a goroutine of its own. It gives rows to the loop in batches. It gives the next
// batch when the loop has dealt with the last one; the loop reports its progress with NotePass and
// NoteCalls. The state of a Refresher is the position in the table, the sizes of batches and the
// wait for the loop. It never calls an operation. There are two ways to give rows to the loop:
//
//   - If outcomes are in the rows, it marks rows that are Done as Refreshing, one transaction a
//     batch. The loop reads a marked row as a change. A row is due when its status is as old as the
//     interval.
//   - If outcomes are beside the table, it writes nothing: it hands rows to the loop
//     ([Config.Hand]). A row does not show when it was last applied, so the Refresher goes over all
//     rows in laps, in the order of revisions. A lap takes one interval, and its rows are spread
//     evenly over it. So each row is refreshed about one interval after it was applied, and at least
//     once in two intervals. If the loop cannot keep up, a lap takes longer.
package refresh
