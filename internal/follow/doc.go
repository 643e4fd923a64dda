// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package follow reads the changes of a table for a trigger or an adapter, and keeps the changes that failed until they are
// tried again: for each row the latest one.
//
// The state of a [Table] is a change iterator and the kept changes. It belongs to the goroutine of its caller, which
// [Table.Wait] blocks. It never writes the table, and does not decide what a change means or how long a failure waits.
package follow
