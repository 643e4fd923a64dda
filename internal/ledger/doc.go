// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package ledger writes the outcomes of operations into the statuses of their rows, all outcomes of a
// batch in one transaction.
//
// An outcome is written only if it is news for the status, and by compare-and-swap on the revision of
// the row. If another writer has changed the row, the status ID shows whether the row still asks for
// the same operation: then the outcome is merged into the row, else it is lost.
//
// The loop's goroutine owns an [InRows]. Its only state is whether other writers were seen in the
// last transaction. It never runs an operation, and it does not decide what runs next: that is for
// the core, which gets [Attempt.Outcome].
package ledger
