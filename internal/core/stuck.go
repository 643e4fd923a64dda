// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// MarkStuck records that the operation of an item that was launched takes far too long, and may
// never come back. Until the item is settled its key stays in flight, with its group and with
// what is noted of it. But it is no probe of a breaker any more, nor a refresh that the next
// ones wait for.
func (c *Core[Obj]) MarkStuck(now time.Duration, it *Item[Obj]) {
	c.endProbes(now, it, probeFailed)
	c.setStuck(it.entry, true)
}

func (c *Core[Obj]) setStuck(e *entry[Obj], stuck bool) {
	if e.stuck == stuck {
		return
	}
	e.stuck = stuck
	n := 1
	if !stuck {
		n = -1
	}
	c.stuck += n
	if e.lane == Refresh {
		c.stuckRefreshes += n
	}
}

// AttemptedExceptStuck is [Core.Attempted] for those who do not wait for what is stuck: that counts as
// attempted. O(stuck).
func (c *Core[Obj]) AttemptedExceptStuck(observed uint64) uint64 {
	c.untried.Ascend(func(t untriedEntry[Obj], since int64) bool {
		if !t.stuck {
			observed = min(observed, uint64(since)-1)
		}
		return t.stuck
	})
	return observed
}

// Refreshing returns how many refreshes are ready or in flight, without those that are stuck.
func (c *Core[Obj]) Refreshing() int {
	return c.lanes[Refresh].size + c.refreshesInFlight - c.stuckRefreshes
}
