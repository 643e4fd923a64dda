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

// Whatever floods in by the other lanes, the nth key of a lane is run among the first
// operations, as many as it takes for the lane to have n places, however early rounds are
// cut short and however few operations there are at a time.
func TestEveryLaneComesThroughAFlood(t *testing.T) {
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
				if items[i].Obj.key[0] == 'p' || items[i].Attempt() > 0 {
					patient++
				}
				require.GreaterOrEqual(t, patient, min(few, ran/len(places)*sharesOf(lane)), "of the first %d operations", ran)
				c.Settle(time.Second, &items[i], done(&items[i]))
			}
			for i := len(items) - 1; i >= len(items)-cut; i-- {
				require.True(t, c.PutBack(&items[i]))
			}
			c.End(len(items) - cut)
		}
		check(t, c)
	})
}

// What the backlog and what was resumed do not need of their places the other has, rather
// than what is fresh: the backlog is no slower for there being a place for what is rare.
func TestBacklogAndWhatWasResumedHaveEachOthersPlace(t *testing.T) {
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

// While there is a catch-up cursor, each lane is at most half of a round long, so that none has to wait
// for much of another; but the backlog has what fresh changes leave of the round, and of
// those there are no more than are soon done.
func TestLanesAreBoundedWhileThereIsATip(t *testing.T) {
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

// Without a catch-up cursor nothing is taken in that is not run in the round, unless something was
// ready before: then each lane is at most a round long.
func TestNothingIsTakenInAheadOfItsTurnWithoutATip(t *testing.T) {
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
		require.False(t, items[i].HasEntry(), "it costs an entry")
		c.Settle(0, &items[i], failed(&items[i], "no"))
	}
	c.End(3)

	// A place is for what is due.
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
