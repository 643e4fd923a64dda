// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package subject holds the systems under test: a table of small rows in a hive, and a contender that reconciles it against
// a fake target.
//
// A benchmark uses a [System] and does not know which contender drives it. It writes rows by number, and reads how far they
// are ([Kind]) and how often the [Target] was called. What is specific to a contender is in its own file (floor.go,
// peer.go, ...), so that no benchmark can favour one by accident.
package subject
