// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package prune decides when a prune or a sweep runs, and finds the orphans of a sweep: objects
// that the target has and the table does not.
//
// The loop's goroutine owns a [Pruner] and passes it the time and its own state. The Pruner's state
// is when the next prune is due, whether work is held back for it, and the listing of a sweep that
// waits for the main cursor. It never calls an operation, and never deletes: the only function of
// the user that it calls is the listing that it is given, and the loop deletes the orphans it
// returns.
package prune
