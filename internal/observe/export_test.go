// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

// AwaitOpening returns when the iterator is open that a goroutine opens for a catch-up cursor, if there is
// one: on a slow machine that may be later than UpdateCatchUp waits for it.
func (o *Observer[Obj]) AwaitOpening() {
	if o.opening != nil {
		o.opening <- <-o.opening
	}
}
