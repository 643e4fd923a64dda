// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package follow reads the changes of a table, and keeps those that could not be dealt with until
// they are tried again: one of each row, the last. What a change means, and how long a failure
// waits, is for its caller.
package follow
