// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package harness has what the tests of this module share beside package reconcilertest, on which it
// is built: a row and an Env of its table, a check that operations do not overlap, and scripts.
package harness
