// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package subject holds what the benchmarks measure: a table of small rows in a hive, and
// a contender that reconciles it against a fake target.
//
// A workload sees a [System] and never learns which contender drives it: rows go in by
// number, and what comes back is how far they are ([Kind]) and how often the [Target] was
// called. All that tells one contender from another is in the contender's own file
// (floor.go, peer.go, ...), so that no workload can favour one of them by accident.
package subject
