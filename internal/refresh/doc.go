// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package refresh marks rows as Refreshing that are Done: those whose status is older than an
// interval, and all of them when somebody asks for that. It works on a goroutine of its own, in
// batches, and marks the next batch when the loop says that the last one has been dealt with.
package refresh
