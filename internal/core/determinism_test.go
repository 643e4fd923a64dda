// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// history makes a core with a seed, plays it a fixed string of calls drawn from another,
// and returns everything that it says.
func history(calls, seed uint64) string {
	c := New(Config[row]{
		KeyOf: keyOfRow, Seed: seed,
		Limits: Limits{MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Minute, Jitter: 0.5, RoundSize: 16},
	})
	var log strings.Builder
	random := rand.New(rand.NewPCG(calls, 1))
	revision, now := uint64(0), time.Duration(0)
	for range 200 {
		now += time.Duration(random.IntN(int(200 * time.Millisecond)))
		c.Release(strconv.Itoa(random.IntN(100)), now)
		c.Begin(now, 16)
		// Never more than fit, whatever is due; a key comes once in a round.
		for key := random.IntN(50); key < 100 && c.Room() > 0; key += 1 + random.IntN(30) {
			revision++
			c.Observe(row{key: strconv.Itoa(key)}, revision, random.IntN(4) == 0, Lane(random.IntN(int(numLanes))))
		}
		items := c.Plan()
		ran := len(items) - random.IntN(len(items)/4+1)
		for i := range items {
			it := &items[i]
			fmt.Fprintf(&log, "%s@%d again=%t deleted=%t attempt=%d\n",
				it.Obj.key, it.Revision, it.Again, it.Deleted, it.Attempt())
			if i >= ran {
				c.Return(it)
				continue
			}
			out := failed(it, strconv.Itoa(random.IntN(3)))
			out.Kind = Kind(random.IntN(int(DoneAgain) + 1))
			out.Delay = time.Duration(random.IntN(3)) * 50 * time.Millisecond
			out.Lost = random.IntN(8) == 0
			c.Settle(now, it, out)
		}
		c.End(ran)
		due, ok := c.NextDue()
		fmt.Fprintf(&log, "due=%s %t low=%d attempted=%d failing=%d version=%d\n",
			due, ok, c.LowWatermark(), c.Attempted(revision), c.Failing(), c.FailureVersion())
		c.Failures(func(text string) bool {
			log.WriteString(text)
			return true
		})
	}
	return log.String()
}

// The same calls with the same seed give the same plans, byte for byte (DESIGN section 3),
// though the core keeps its keys in a map.
func TestSameCallsGiveTheSamePlans(t *testing.T) {
	for calls := range uint64(10) {
		first := history(calls, 1)
		require.Greater(t, strings.Count(first, "again=true"), 100, "the history says little")
		require.Equal(t, first, history(calls, 1))
		require.NotEqual(t, first, history(calls, 2), "the seed makes no difference")
	}
}
