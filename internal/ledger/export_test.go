// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

// MaxSamples is the bound of [Times.Len].
const MaxSamples = maxSamples

// Len returns the number of samples.
func (t *Times) Len() int { return len(t.samples) }
