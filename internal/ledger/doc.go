// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package ledger writes the outcomes of operations where they are kept: into the status of each
// row, all of a batch in one transaction. An outcome is written if it says something new, by
// compare-and-swap on the revision; when the row was written meanwhile, the ID of its status tells
// whether it still asks for the same.
package ledger
