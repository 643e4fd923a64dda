// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package refresh marks rows that are Done as Refreshing: those whose status is older than an
// interval, and all of them on request. It works on a goroutine of its own, in batches. It marks
// the next batch when the loop has dealt with the last one.
package refresh
