// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package rows gives access to the rows of one table for one reconciler: it looks up rows, reads and sets the reconciler's
// status in an object, and converts keys to texts and back. It has no state that changes, and never writes to the table.
package rows
