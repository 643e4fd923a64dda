// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// MarkStuck records that the operation of a launched item takes far too long, and may never return.
// Until the item is settled, its key stays in flight and keeps its group and its later change. But
// if the item was a probe, the probe has failed, and Refreshing no longer counts the item.
func (c *Core[Obj]) MarkStuck(now time.Duration, it *Item[Obj]) {
	c.endProbes(now, it, probeFailed)
	it.entry.stuck = true
	c.reindex(it.entry)
}

// AttemptedExceptStuck is [Core.Attempted] with stuck operations counted as attempts. O(stuck).
func (c *Core[Obj]) AttemptedExceptStuck(observed uint64) uint64 {
	for i := range c.untried {
		c.untried[i].Ascend(func(t untriedEntry[Obj], since int64) bool {
			if !t.stuck {
				observed = min(observed, uint64(since)-1)
			}
			return t.stuck
		})
	}
	return observed
}

// Refreshing returns how many refreshes are ready or in flight, without stuck ones.
func (c *Core[Obj]) Refreshing() int {
	return c.lanes[Refresh].size + c.refreshesInFlight
}
