// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package follow reads the changes of a table, and keeps those that failed until they are tried
// again: for each row the last one. The caller decides what a change means, and how long a failure
// waits.
package follow
