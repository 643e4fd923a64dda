// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package prune decides when a prune or a sweep runs, and finds the orphans of a sweep: what the
// target lists and the table does not have. It gets the time and the state of the loop as
// arguments, and returns what to do. The only operation that it calls is the listing that it is
// given.
package prune
