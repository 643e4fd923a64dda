// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package refresh finds the rows that the loop applies again although they have not changed: each row about once an
// interval, on request all rows, and those that a resync found missing or different.
//
// A [Refresher] is a stage of the loop. Its state is its place in the table and the time of the next row. It calls no
// operation, and writes nothing. A row is due in one of two ways:
//
//   - If outcomes are in the rows, when its status is as old as the interval. Rows are checked in the order of revisions,
//     about that of the ages. Each operation on a returned row has to write its status, even if that is no news: so the row
//     gets a later revision, and is found again.
//   - Beside the table, in a lap: once an interval over all rows, in the order of keys. A row that changes during the lap
//     leaves it, since the change is applied. So each row is applied at least once in two intervals, unless the loop cannot
//     keep up.
package refresh
