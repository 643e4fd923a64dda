// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package refresh finds the rows that the loop applies again although they have not changed: each row
// about once an interval, and on request all rows.
//
// A [Refresher] is a stage of the loop. [Refresher.Step] gives the loop the next batch of rows, unless
// the loop has not dealt with the last one; [Refresher.NotePass] records that it has. Its state is its
// place in the table, the size of batches and the time of the next step. It calls no operation.
// A row is due in one of two ways:
//
//   - If outcomes are in the rows, when its status is as old as the interval. Rows are checked in the
//     order of revisions, which is about that of the ages.
//   - If outcomes are beside the table, a row does not show when it was last applied. So the Refresher
//     goes over all rows in laps, in the order of keys. A lap takes one interval, and its rows are
//     spread evenly over it. So each row is refreshed about one interval after it was applied, and at
//     least once in two intervals. If the loop cannot keep up, a lap takes longer.
package refresh
