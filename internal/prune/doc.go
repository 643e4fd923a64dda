// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package prune decides when what is not wanted is removed from a target, and finds the orphans of a
// sweep: what the target lists and the table does not have. It is told the time and how far the loop
// is, and returns what to do; it calls no operation but the listing that it is handed.
package prune
