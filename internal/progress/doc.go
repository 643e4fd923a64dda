// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package progress publishes how far a loop has got with a table, and has the waits for revisions.
//
// The state of a [Progress] is the published revisions and the waits. The loop's goroutine publishes
// at the end of a pass and sends to the waits that are over. Callers join, wait and leave on any
// goroutine. The package never reads the table or the core.
package progress
