// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package observe reads the changes of a table and hands them to the core, as many as the core has room for.
//
// The main cursor reads every change, one snapshot of the table after the other. While the target is slow and changes pile
// up, a catch-up cursor reads what is newer, so that new changes need not wait for the whole backlog.
//
// The state of an [Observer] is what was read: a revision or, while there is a catch-up cursor, all but some ranges of
// revisions; and since when main is behind. The loop's goroutine owns it and calls it in every pass. Package observe never
// writes rows and never runs an operation. Of a row it reads only the status.
package observe
