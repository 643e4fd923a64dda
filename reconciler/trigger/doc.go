// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package trigger makes a reconciler come back to objects when rows of another table change, on
// which they depend. [Register] adds a trigger to a hive, [New] makes one for programs without;
// [Trigger] says what it does.
package trigger
