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

// sharesOf returns how many of the places belong to a lane.
func sharesOf(lane Lane) int {
	n := 0
	for _, l := range places {
		if l == lane {
			n++
		}
	}
	return n
}

// Every lane has a place, those whose time has come every fourth, and what a lane does not
// need somebody has.
func TestEveryLaneHasAPlace(t *testing.T) {
	require.Equal(t, len(places)/share, sharesOf(waited))
	for i, lane := range places {
		require.Equal(t, i%share == 0, lane == waited, "place %d", i)
	}
	for lane := range NumLanes {
		require.Positive(t, sharesOf(lane), lane.String())
		require.Contains(t, rest, lane)
		require.NotEmpty(t, lane.String())
	}
	require.Len(t, rest, int(NumLanes))
}

// Whatever floods in by the other lanes, the nth key of a lane is run among the first
// operations, as many as it takes for the lane to have n places, however early rounds are
// cut short and however few operations there are at a time.
func TestEveryLaneComesThroughAFlood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size, few = 64, 4
		lane := rapid.SampledFrom([]Lane{Fresh, Deletion, Backlog, Refresh, waited}).Draw(t, "lane")
		c := small(size)
		c.turn = rapid.IntRange(0, len(places)-1).Draw(t, "turn")
		revision := uint64(0)
		if lane == waited {
			revision = fail(t, c, few)
		}
		observe := func(lane Lane, key string) {
			revision++
			c.Observe(row{key: key}, revision, lane == Deletion, lane)
		}
		ran, patient := 0, 0
		for first := true; patient < few; first = false {
			c.Begin(time.Second, rapid.IntRange(1, 10).Draw(t, "operations at a time"))
			for i := range few {
				if first && lane != waited {
					observe(lane, fmt.Sprintf("patient%d", i))
				}
			}
			for i := 0; c.Room() > 0; i++ {
				if other := rest[i%len(rest)]; other != lane {
					observe(other, fmt.Sprintf("flood%d", revision))
				}
			}
			items := c.Plan()
			cut := rapid.IntRange(0, len(items)-1).Draw(t, "items put back")
			for i := range items[:len(items)-cut] {
				ran++
				if items[i].Obj.key[0] == 'p' || items[i].Attempt() > 0 {
					patient++
				}
				require.GreaterOrEqual(t, patient, min(few, ran/len(places)*sharesOf(lane)), "of the first %d operations", ran)
				c.Settle(time.Second, &items[i], done(&items[i]))
			}
			for i := len(items) - 1; i >= len(items)-cut; i-- {
				c.Return(&items[i])
			}
			c.End(len(items) - cut)
		}
		check(t, c)
	})
}

// A change that has been fresh for too long does not go behind all that is written after
// it, and what is written does not wait for all that has been fresh for too long.
func TestOldAndNewChangesTakeTurns(t *testing.T) {
	const size = 32
	c := small(size)
	c.Begin(0, 0)
	revision := uint64(0)
	for c.Room() > 0 {
		revision++
		c.Observe(row{key: fmt.Sprintf("old%d", revision)}, revision, false, Fresh)
	}
	require.Empty(t, c.Plan())
	c.End(0)

	now, ran := youth, map[byte]int{}
	for range size {
		c.Begin(now, 1)
		for c.Room() > 0 {
			revision++
			c.Observe(row{key: fmt.Sprintf("new%d", revision)}, revision, false, Fresh)
		}
		items := c.Plan()
		require.Len(t, items, 1)
		ran[items[0].Obj.key[0]]++
		c.Settle(now, &items[0], done(&items[0]))
		c.End(1)
	}
	check(t, c)
	require.GreaterOrEqual(t, ran['o'], size*sharesOf(Backlog)/len(places))
	require.GreaterOrEqual(t, ran['n'], size*sharesOf(Fresh)/len(places))
}

// Beside a backlog, at most half of a round of what is fresh is taken in, and of the
// backlog what is left of the round, but half of one at least.
func TestBacklogLeavesRoomForWhatIsFresh(t *testing.T) {
	for _, size := range []int{1, 2, 3, 8, 9} {
		c := small(size)
		c.Begin(0, size)
		half := (size + 1) / 2
		require.Equal(t, half, c.RoomFor(false))
		require.Equal(t, size, c.RoomFor(true))
		for n := range half {
			require.Equal(t, half-n, c.RoomFor(false))
			require.Equal(t, size-n, c.RoomFor(true))
			c.Observe(row{key: fmt.Sprint(n)}, uint64(1+n), false, Fresh)
		}
		require.Zero(t, c.RoomFor(false))
		for n := half; n < size; n++ {
			require.Equal(t, size-n, c.RoomFor(true))
			c.Observe(row{key: fmt.Sprint(n)}, uint64(1+n), false, Backlog)
		}
		require.Zero(t, c.RoomFor(true))
		require.Zero(t, c.Room())
		require.Len(t, c.Plan(), size)
	}
}
