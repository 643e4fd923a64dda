// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package dropin checks that a program written against github.com/cilium/statedb/reconciler v0.9.4 (the peer) behaves the
// same when only its import path changes to github.com/statekeel/statekeel/reconciler.
//
// The tests run the programs in the folder programs twice: as written, and with the import path changed in a copy (an
// overlay of "go test"). They fail if a run fails or if the transcripts differ. Another test checks that the programs use
// each exported name. The peer's own external tests run with the path changed, too, from the source in the module cache.
//
// Where Statekeel differs on purpose, the programs assert only what holds on both sides: see docs/COMPATIBILITY.md,
// "What behaves differently".
package dropin
