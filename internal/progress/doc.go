// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package progress has how far a loop has come with a table, and who waits for which revision.
package progress
