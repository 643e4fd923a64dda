// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package trigger reconciles objects again when rows of another table, on which they depend, change. [Register] adds a
// [Trigger] to a hive, [New] makes one for programs without a hive.
package trigger
