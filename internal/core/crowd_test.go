// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crowd is a plant with many keys that wait for the same thing.
type crowd struct {
	*plant
	things []*thing
	// member has the objects of the crowd.
	member map[*thing]bool
	// paused and grouped count the calls of the functions for pauses and groups.
	paused, grouped int
	launched        []Operation[*thing]
}

// crowds has a way to wait for each state: gather makes all keys of a crowd wait, scatter ends it.
var crowds = []struct {
	state   State
	gather  func(c *crowd)
	scatter func(c *crowd)
}{
	{Retry, func(c *crowd) { c.rounds(c.things, parks) }, later},
	{Terminal, func(c *crowd) { c.rounds(c.things, as(FailedForGood)) }, touch},
	{Blocked, func(c *crowd) { c.rounds(c.things, as(BlockedOn)) }, func(c *crowd) {
		for _, o := range c.things {
			c.Release(string(o.key), c.now)
		}
	}},
	{Requeue, func(c *crowd) {
		c.rounds(c.things, func(it *Operation[*thing]) Outcome[*thing] {
			return Outcome[*thing]{Kind: DoneAgain, Delay: time.Hour, Object: it.Obj, NewRevision: it.Revision}
		})
	}, later},
	{Held, func(c *crowd) {
		c.rounds(c.things, parks)
		c.rounds(c.things, nil)
	}, later},
	{Paused, func(c *crowd) {
		c.SetPaused(c.now, func(o *thing) bool { c.paused++; return c.member[o] })
		c.rounds(c.things, nil)
	}, func(c *crowd) { c.SetPaused(c.now, nil) }},
	{Queued, func(c *crowd) {
		c.SetGrouping(true)
		c.launch(&thing{key: []byte("first")})
		c.rounds(c.things, nil)
	}, func(c *crowd) { c.finish(); c.SetGrouping(false) }},
	{InFlight, func(c *crowd) {
		for _, o := range c.things {
			c.launch(o)
		}
	}, func(c *crowd) { c.finish() }},
	{Unseen, func(c *crowd) {
		c.rounds(c.things, func(it *Operation[*thing]) Outcome[*thing] {
			return Outcome[*thing]{Kind: Failed, Text: &parked, Lost: true}
		})
	}, func(c *crowd) { c.now += time.Hour; touch(c) }},
	{Ready, func(c *crowd) {
		for _, o := range c.things {
			c.AddOrphan(o, 1)
		}
	}, func(*crowd) {}},
}

func later(c *crowd) { c.now += 2 * time.Hour }
func touch(c *crowd) { c.rounds(c.things, succeeds) }

// as returns an outcome of a kind, with an error text.
func as(k Kind) func(it *Operation[*thing]) Outcome[*thing] {
	return func(it *Operation[*thing]) Outcome[*thing] {
		return Outcome[*thing]{Kind: k, Text: &parked, Object: it.Obj, NewRevision: it.Revision}
	}
}

// newCrowd returns a crowd of n keys that do not wait yet.
func newCrowd(n int) *crowd {
	c := &crowd{things: newThings("crowd", n), member: map[*thing]bool{}}
	for _, o := range c.things {
		c.member[o] = true
	}
	cfg := thingConfig(100)
	cfg.GroupOf = func(o *thing) string {
		c.grouped++
		if c.member[o] || string(o.key) == "first" {
			return "crowd"
		}
		return ""
	}
	cfg.Breaker = &BreakerConfig{
		Failures: 1, Probes: 1, MinInterval: time.Hour, MaxInterval: time.Hour,
	}
	c.plant = &plant{Core: New(cfg)}
	return c
}

func (c *crowd) launch(o *thing) {
	c.Begin(c.now, 1, false)
	c.revision++
	c.Observe(Change[*thing]{Obj: o, Revision: c.revision, Since: c.revision, Lane: Backlog})
	items := c.Plan()
	c.launched = append(c.launched, items[0])
}

func (c *crowd) finish() {
	for i := range c.launched {
		c.Settle(c.now, &c.launched[i], succeeds(&c.launched[i]))
	}
	c.launched = nil
}

// The cost of a round depends on its items, not on the number of waiting keys (DESIGN section 6,
// no. 7).
func TestRoundCostDependsOnItsItemsOnly(t *testing.T) {
	for _, way := range crowds {
		t.Run(way.state.String(), func(t *testing.T) {
			cost := func(n int) (fastest time.Duration, allocations float64) {
				c := newCrowd(n)
				way.gather(c)
				require.Equal(t, n, c.Index.figures.States[way.state])
				fresh := newThings("fresh", 50)
				round := func() {
					// A failure opens the breaker, and a success closes it: a target may go up and down all the time.
					c.now++
					flapping := &thing{key: fmt.Append(nil, "flapping", c.revision)}
					c.round([]*thing{flapping}, func(it *Operation[*thing]) Outcome[*thing] {
						if it.Obj == flapping {
							return parks(it)
						}
						return succeeds(it)
					})
					c.round(fresh, succeeds)
					c.NextDue()
					c.Index.LowWatermark()
					c.Index.Attempted(c.revision)
				}
				round()
				c.paused, c.grouped = 0, 0
				round()
				require.LessOrEqual(t, c.paused, 100, "calls of the function")
				require.LessOrEqual(t, c.grouped, 100, "calls of the function")
				allocations = testing.AllocsPerRun(5, round)
				fastest = time.Hour
				for range 20 {
					began := time.Now()
					round()
					fastest = min(fastest, time.Since(began))
				}
				require.Greater(t, c.Breaker.State().Openings, uint64(20))
				return fastest, allocations
			}
			few, fewAllocations := cost(1_000)
			many, manyAllocations := cost(20_000)
			require.InDelta(t, fewAllocations, manyAllocations, 60, "allocations")
			// A walk over the crowd would take twenty times as long.
			require.Less(t, many, 8*few+200*time.Microsecond)
		})
	}
}

// When the keys of a crowd have ended their wait, their memory is released.
func TestMemoryIsReleasedWhenManyWaitsEnd(t *testing.T) {
	const n = 20_000
	for _, way := range crowds {
		t.Run(way.state.String(), func(t *testing.T) {
			c := newCrowd(n)
			before := heapInUse()
			way.gather(c)
			require.Equal(t, n, c.Index.figures.States[way.state])
			grown := heapInUse() - before
			way.scatter(c)
			for len(c.keys.entries) > 0 {
				require.LessOrEqual(t, len(c.keys.entries), c.keys.peak)
				require.Less(t, c.keys.peak, max(minPeak, 4*len(c.keys.entries))+4, "the map is too large for its entries")
				c.now += time.Hour
				c.round(nil, succeeds)
			}
			require.Empty(t, c.queues.groups.byName)
			left := heapInUse() - before
			require.Less(t, left, grown/10, "bytes left of %d", grown)
			runtime.KeepAlive(c)
		})
	}
}
