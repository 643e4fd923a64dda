// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package journal keeps the latest rounds of a reconciler and their operations, each in a ring. An entry is small and has
// the object of the operation. Its texts are made when it is read.
//
// The loop's goroutine writes a round under the lock of the [Journal]. Readers on any goroutine take the same lock, only to
// copy. The journal never reads the table or the core, and it calls the user's functions without its lock, except for the
// filter of [Journal.Operations].
package journal
