// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package progress publishes how far a loop has come with a table, and has the waits for revisions.
package progress
