// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// flood is a source that always has another change. It has the revision of the last one.
type flood struct {
	anyLane
	revision uint64
}

func (f *flood) Next(lane Lane) (c Change[row], ok bool) {
	if lane != Backlog {
		return c, false
	}
	f.revision++
	return Change[row]{Obj: row{key: "flood" + strconv.FormatUint(f.revision, 10)}, Revision: f.revision, Since: f.revision, Lane: Backlog}, true
}

// fail makes n keys fail at time 0, and returns a flood of later changes.
func fail(t testingT, c *Core[row], n int) *flood {
	var changes listed[row]
	for i := range n {
		changes = append(changes, Change[row]{Obj: row{key: "retry" + strconv.Itoa(i)}, Revision: uint64(i + 1), Since: uint64(i + 1), Lane: Backlog})
	}
	for c.Index.figures.Failing < n {
		c.Begin(0, c.roundSize, false)
		items := c.planFrom(&changes)
		for j := range items {
			c.Settle(0, &items[j], failed(&items[j], "no"))
		}
	}
	require.Equal(t, n, c.Index.figures.States[Retry])
	return &flood{revision: uint64(n)}
}

// At any rate of changes, the nth due retry is run among the first 4n operations (DESIGN section 6,
// no. 6), however large rounds are and however early they are cut short.
func TestDueRetriesAreRunDuringAFlood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 40).Draw(t, "round size")
		retries := rapid.IntRange(1, 50).Draw(t, "retries")
		c := small(size)
		changes := fail(t, c, retries)

		operations, done := 0, 0
		for c.Index.figures.Failing > 0 {
			c.Begin(time.Second, c.roundSize, false)
			items := c.planFrom(changes)
			require.Len(t, items, size, "a round in a flood is full")
			ran := rapid.IntRange(1, size).Draw(t, "run before the round is cut short")
			for i := range items {
				if i >= ran {
					c.Recall(c.round.now, &items[i])
					continue
				}
				operations++
				if items[i].Failures > 0 {
					done++
				}
				c.Settle(time.Second, &items[i], Outcome[row]{Kind: Done})
				require.GreaterOrEqual(t, done, min(retries, operations/4),
					"retries among the first %d operations", operations)
			}
		}
	})
}

// However many keys fail, and however often, three operations in four are changes while there are
// any.
func TestChangesAreRunBesideManyRetries(t *testing.T) {
	for _, size := range []int{1, 2, 3, 4, 5, 8, 1000} {
		t.Run(fmt.Sprintf("round size %d", size), func(t *testing.T) {
			c := small(size)
			flood := fail(t, c, 4*size)
			now, operations, changes := time.Duration(0), 0, 0
			for range 12 {
				// All retries are always due.
				now += time.Hour
				c.Begin(now, c.roundSize, false)
				items := c.planFrom(flood)
				for i := range items {
					operations++
					if items[i].Failures > 0 {
						c.Settle(now, &items[i], failed(&items[i], "no"))
						continue
					}
					changes++
					c.Settle(now, &items[i], done(&items[i]))
				}
			}
			require.Equal(t, 12*size, operations)
			require.InDelta(t, operations*3/4, changes, 1, "changes among %d operations", operations)
		})
	}
}

// The keys that have been due for longest are run first, so that each of many keys gets its turn.
func TestManyRetriesTakeTurns(t *testing.T) {
	const retries, size = 100, 8
	c := small(size)
	fail(t, c, retries)
	attempts := map[string]int{}
	now := time.Second
	for range 5 * retries / size {
		c.Begin(now, c.roundSize, false)
		items := c.Plan()
		require.Len(t, items, size)
		for i := range items {
			attempts[items[i].Obj.key]++
			out := failed(&items[i], "no")
			out.Delay = time.Nanosecond
			c.Settle(now, &items[i], out)
		}
		now += time.Millisecond
	}
	require.Len(t, attempts, retries)
	for key, n := range attempts {
		require.InDelta(t, 5, n, 1, "attempts of %q", key)
	}
}

// Many keys that become ready at once, because they were resumed or are orphans, do not keep new
// changes from being observed and run.
func TestChangesAreRunBesideManyReadyKeys(t *testing.T) {
	const size, crowd = 8, 100
	for name, gather := range map[string]func(c *Core[row]){
		"resumed": func(c *Core[row]) {
			c.SetPaused(0, func(r row) bool { return r.group == "paused" })
			c.Begin(0, size, false)
			for i := range crowd {
				c.see(row{key: "crowd" + strconv.Itoa(i), group: "paused"}, uint64(i+1), false, Backlog)
			}
			c.SetPaused(time.Second, nil)
		},
		"orphans": func(c *Core[row]) {
			for i := range crowd {
				require.True(t, c.AddOrphan(row{key: "crowd" + strconv.Itoa(i)}, 1))
			}
		},
	} {
		for _, lane := range []Lane{Backlog, Deletion} {
			t.Run(name+"/"+lane.String(), func(t *testing.T) {
				c := small(size)
				gather(c)
				require.Equal(t, crowd, c.Index.figures.States[Ready])
				c.Begin(time.Second, size, false)
				items := c.planFrom(&listed[row]{{row{key: "new"}, crowd + 1, crowd + 1, lane == Deletion, lane, false}})
				require.Len(t, items, size)
				require.Contains(t, planned(items), "new")
				for i := range items {
					c.Settle(time.Second, &items[i], done(&items[i]))
				}
				check(t, c)
				for left := crowd + 1 - size; left > 0; left -= size {
					require.Equal(t, left, c.Index.figures.States[Ready])
					require.Len(t, settleAll(t, c, time.Second, done), min(size, left))
				}
				require.False(t, tracks(c))
			})
		}
	}
}
