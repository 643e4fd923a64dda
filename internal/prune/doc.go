// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package prune decides when a prune begins, or a listing of the target for a resync.
//
// The loop's goroutine owns a [Pruner] and passes it the time and its own state. The Pruner's state is when the
// next one is due, what it waits for, and whether work is held back for it. It calls no function of the program.
package prune
