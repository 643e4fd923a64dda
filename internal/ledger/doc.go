// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package ledger writes the outcomes of operations. [Beside] writes them into tables of its own, at the
// end of a pass. [InRows] writes them into the statuses of their rows, all outcomes of a batch in one
// transaction.
//
// In the rows, an outcome is written only if it is news for the status, and by compare-and-swap on
// the revision of the row. If another writer has changed the row, the status ID shows whether the row
// still asks for the same operation: then the outcome is merged into the row, else it is lost.
//
// The loop's goroutine owns a ledger. That never runs an operation, and it does not decide what runs
// next: that is for the core, which gets Outcome of a [core.Operation]. The only state of an [InRows] is whether
// other writers were seen in the last transaction.
package ledger
