// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

// sweepBudget is what one sweep may delete; zeros are no bound.
type sweepBudget struct {
	objects  int
	fraction float64
}
