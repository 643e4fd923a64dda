// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package rows reads and writes the rows of one table for one reconciler: look-ups, the status
// that the reconciler keeps in a row, and the text of a row's key.
package rows
