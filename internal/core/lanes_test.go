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
	for _, order := range places {
		if order[0] == lane {
			n++
		}
	}
	return n
}

// Every lane has a place, due keys have every fourth, and a place that its lane does not need goes
// to another lane.
func TestEveryLaneHasAPlace(t *testing.T) {
	require.Equal(t, len(places)/4, sharesOf(dueLane))
	for i, order := range places {
		require.Equal(t, i%4 == 0, order[0] == dueLane, "place %d", i)
		require.ElementsMatch(t, []Lane{Fresh, Deletion, Backlog, Refresh, Resumption, dueLane}, order)
	}
	for lane := range NumLanes {
		require.Positive(t, sharesOf(lane), lane.String())
		require.NotEmpty(t, lane.String())
	}
}

// Whatever the other lanes hold, the nth key of a lane is run before the lane has had more than n
// places, however early rounds are cut short and however few operations a round has.
func TestEveryLaneIsServedDuringAFlood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const few = 4
		lane := rapid.SampledFrom(places[0][:]).Draw(t, "lane")
		c := small(64)
		c.round.turn = rapid.IntRange(0, len(places)-1).Draw(t, "turn")
		if lane == dueLane {
			fail(t, c, few)
		}
		from := &besieged{t: t, core: c, patient: lane, revision: few}
		ran, patient := 0, 0
		c.Begin(time.Second, 0, false)
		for range few {
			from.bring(lane, "patient")
		}
		for patient < few {
			c.Begin(time.Second, rapid.IntRange(1, 10).Draw(t, "operations at a time"), false)
			items := c.planFrom(from)
			cut := rapid.IntRange(0, len(items)-1).Draw(t, "operations that are not run")
			for i := range items[:len(items)-cut] {
				ran++
				if items[i].Obj.key[0] == 'p' || items[i].Failures > 0 {
					patient++
				}
				require.GreaterOrEqual(t, patient, min(few, ran/len(places)*sharesOf(lane)), "of the first %d operations", ran)
				c.Settle(time.Second, &items[i], done(&items[i]))
			}
			for i := len(items) - 1; i >= len(items)-cut; i-- {
				c.Recall(time.Second, &items[i])
			}
		}
		check(t, c)
	})
}

// besieged is a source that always has changes for all lanes but one. The keys of the other lanes are ready.
type besieged struct {
	anyLane
	t        testingT
	core     *Core[row]
	patient  Lane
	revision uint64
}

func (b *besieged) Next(lane Lane) (c Change[row], ok bool) {
	if lane == b.patient {
		return c, false
	}
	if lane > Backlog {
		b.bring(lane, "flood")
		return c, false
	}
	b.revision++
	key := fmt.Sprintf("flood%d", b.revision)
	return Change[row]{row{key: key}, b.revision, b.revision, lane == Deletion, lane, false}, true
}

// bring makes a key ready in a lane.
func (b *besieged) bring(lane Lane, name string) {
	b.revision++
	key := row{key: fmt.Sprint(name, b.revision)}
	switch lane {
	case dueLane:
	case Resumption:
		require.True(b.t, b.core.AddOrphan(key, b.revision))
	default:
		b.core.see(key, b.revision, lane == Deletion, lane)
	}
}

// A place that the backlog does not need goes to resumed keys first, and the other way round,
// before fresh changes. So the backlog is no slower because there is a place for resumed keys,
// which are rare.
func TestBacklogAndResumptionShareTheirPlaces(t *testing.T) {
	for _, lane := range []Lane{Backlog, Resumption} {
		t.Run(lane.String(), func(t *testing.T) {
			c := small(16)
			c.Begin(0, 8, false)
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

// A change in the source is run without an entry, and only when it has a place: what the round does not run stays
// in the source.
func TestChangesAreTakenOneByOne(t *testing.T) {
	c := small(4)
	var changes listed[row]
	for i := range uint64(6) {
		changes = append(changes, Change[row]{row{key: fmt.Sprint(i)}, i + 1, i + 1, i == 2, Backlog, false})
	}
	c.Begin(0, 3, false)
	items := c.planFrom(&changes)
	require.Equal(t, []string{"0", "1", "2"}, planned(items))
	require.Len(t, changes, 3)
	require.False(t, tracks(c))
	for i := range items {
		require.False(t, items[i].HasEntry())
		c.Settle(0, &items[i], failed(&items[i], "no"))
	}

	c.Begin(time.Second, 3, false)
	items = c.planFrom(&changes)
	require.Equal(t, []string{"3", "0", "4"}, planned(items), "one place is for a due key")
	require.Len(t, changes, 1)
}

// The keys of a lane and the changes in the source for it take turns, so that none waits for all of the others.
func TestReadyKeysAndTheSourceTakeTurns(t *testing.T) {
	c := small(100)
	c.Begin(0, 8, false)
	for i := range uint64(8) {
		c.see(row{key: fmt.Sprint("ready", i)}, i+1, false, Fresh)
	}
	from := &besieged{t: t, core: c, revision: 8, patient: Backlog}
	ran := map[byte]int{}
	for _, op := range c.planFrom(from) {
		if op.Lane() == Fresh {
			ran[op.Obj.key[0]]++
		}
	}
	require.InDelta(t, ran['r'], ran['f'], 1)
	require.Positive(t, ran['r'])
}
