// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package ledger writes the outcomes of operations: [Beside] into tables of its own, at the end of a pass; [InRows] into
// the statuses of their rows, all outcomes of a batch in one transaction. docs/DESIGN.md, section 4, says what a status and a
// mark mean.
//
// The loop's goroutine owns a ledger, which never runs an operation and does not decide what runs next. The only state of
// an [InRows] is whether other writers were seen in the last transaction.
package ledger
