// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sharesOf returns the number of places of a lane.
func sharesOf(lane Lane) int {
	n := 0
	for _, l := range places {
		if l == lane {
			n++
		}
	}
	return n
}

// Every lane has a place, due keys have every fourth, and a place that its lane does not need goes
// to another lane.
func TestEveryLaneHasAPlace(t *testing.T) {
	require.Equal(t, len(places)/share, sharesOf(dueLane))
	for i, lane := range places {
		require.Equal(t, i%share == 0, lane == dueLane, "place %d", i)
	}
	for lane := range NumLanes {
		require.Positive(t, sharesOf(lane), lane.String())
		require.Contains(t, fallbacks, lane)
		require.NotEmpty(t, lane.String())
	}
	require.Len(t, fallbacks, int(NumLanes))
}

// Whatever the other lanes hold, the nth key of a lane is run before the lane has had more than n
// places, however early rounds are cut short and however few operations a round has.
func TestEveryLaneIsServedDuringAFlood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size, few = 64, 4
		lane := rapid.SampledFrom(append(fallbacks[:], dueLane)).Draw(t, "lane")
		c := small(size)
		c.turn = rapid.IntRange(0, len(places)-1).Draw(t, "turn")
		revision := uint64(0)
		if lane == dueLane {
			revision = fail(t, c, few)
		}
		bring := func(lane Lane, key string) {
			revision++
			if lane == Resumption {
				require.True(t, c.AddOrphan(row{key: key}, revision))
				return
			}
			c.see(row{key: key}, revision, lane == Deletion, lane)
		}
		ran, patient := 0, 0
		for first := true; patient < few; first = false {
			c.Begin(time.Second, rapid.IntRange(1, 10).Draw(t, "operations at a time"), size)
			for i := range few {
				if first && lane != dueLane {
					bring(lane, fmt.Sprintf("patient%d", i))
				}
			}
			for _, other := range fallbacks {
				for other != lane && !c.Full(other) {
					bring(other, fmt.Sprintf("flood%d", revision))
				}
			}
			items := c.Plan()
			cut := rapid.IntRange(0, len(items)-1).Draw(t, "items put back")
			for i := range items[:len(items)-cut] {
				ran++
				if items[i].Obj.key[0] == 'p' || items[i].Failures > 0 {
					patient++
				}
				require.GreaterOrEqual(t, patient, min(few, ran/len(places)*sharesOf(lane)), "of the first %d operations", ran)
				c.Settle(time.Second, &items[i], done(&items[i]))
			}
			for i := len(items) - 1; i >= len(items)-cut; i-- {
				c.PutBack(&items[i])
			}
			c.End(len(items) - cut)
		}
		check(t, c)
	})
}

// A place that the backlog does not need goes to resumed keys first, and the other way round,
// before fresh changes. So the backlog is no slower because there is a place for resumed keys,
// which are rare.
func TestBacklogAndResumptionShareTheirPlaces(t *testing.T) {
	for _, lane := range []Lane{Backlog, Resumption} {
		t.Run(lane.String(), func(t *testing.T) {
			c := small(16)
			c.Begin(0, 8, 16)
			for i := range 8 {
				c.see(row{key: fmt.Sprintf("fresh%d", i)}, uint64(1+i), false, Fresh)
				key := row{key: fmt.Sprintf("patient%d", i)}
				if lane == Backlog {
					c.see(key, uint64(101+i), false, Backlog)
				} else {
					require.True(t, c.AddOrphan(key, 100))
				}
			}
			ran := map[byte]int{}
			for _, key := range planned(c.Plan()) {
				ran[key[0]]++
			}
			require.Equal(t, map[byte]int{'f': 6, 'p': 2}, ran)
		})
	}
}

// With a catch-up cursor, each lane takes in at most half a round, so that no lane waits long for
// another. The backlog also takes in what fresh changes leave of a round. Fresh changes are bounded
// by maxFresh as well.
func TestLanesAreBoundedWithACatchUpCursor(t *testing.T) {
	for _, size := range []int{1, 2, 3, 8, 9} {
		for _, maxFresh := range []int{1, 3, 100} {
			t.Run(fmt.Sprintf("round size %d, at most %d fresh", size, maxFresh), func(t *testing.T) {
				c := small(size)
				c.Begin(0, size, maxFresh)
				half := (size + 1) / 2
				revision := uint64(0)
				fill := func(lane Lane) (n int) {
					for ; !c.Full(lane); n++ {
						revision++
						c.see(row{key: fmt.Sprint(revision)}, revision, lane == Deletion, lane)
					}
					return n
				}
				fresh := min(half, maxFresh)
				require.Equal(t, fresh, fill(Fresh))
				require.Equal(t, half, fill(Deletion))
				require.Equal(t, half, fill(Refresh))
				require.Equal(t, max(half, size-fresh), fill(Backlog))
				require.Len(t, c.Plan(), size)
			})
		}
	}
}

// Without a catch-up cursor only changes that this round runs are taken in, unless keys were ready
// before. In that case each lane takes in at most a round.
func TestOneCursorTakesInOnlyWhatTheRoundRuns(t *testing.T) {
	c := small(4)
	fill := func(lane Lane, from uint64) (n int) {
		for ; !c.Full(lane); n++ {
			c.see(row{key: fmt.Sprint(from)}, from, lane == Deletion, lane)
			from++
		}
		return n
	}
	c.Begin(0, 3, 0)
	require.Equal(t, 3, fill(Backlog, 1))
	require.True(t, c.Full(Deletion), "the round is full")
	items := c.Plan()
	require.Len(t, items, 3)
	for i := range items {
		require.False(t, items[i].HasEntry(), "the item must not have an entry")
		c.Settle(0, &items[i], failed(&items[i], "no"))
	}
	c.End(3)

	// One place is kept for a due key.
	c.Begin(time.Second, 3, 0)
	require.Equal(t, 2, fill(Backlog, 4))
	require.Len(t, c.Plan(), 3)
	for i := range c.round.items {
		c.Settle(time.Second, &c.round.items[i], done(&c.round.items[i]))
	}
	c.End(3)

	require.True(t, c.AddOrphan(row{key: "stray"}, 10))
	c.Begin(2*time.Second, 2, 0)
	require.Equal(t, 2, fill(Backlog, 11))
	require.Equal(t, 2, fill(Deletion, 21))
	require.Len(t, c.Plan(), 2)
}
