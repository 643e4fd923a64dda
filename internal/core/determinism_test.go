// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// history makes a fixed sequence of calls to a core with the given seed, and returns everything
// that the core reports. The calls are drawn with the seed calls.
func history(calls, seed uint64) string {
	h := &historian{random: rand.New(rand.NewPCG(calls, 1)), core: New(Config[row]{
		KeyOf: keyOfRow, SamePending: samePending, Seed: seed,
		GroupOf: func(r row) string { return r.key[:1] },
		Limits:  Limits{MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Minute, Jitter: 0.5, RoundSize: 16},
		Breaker: &BreakerConfig{
			Failures: 2, Probes: 2, MinInterval: 100 * time.Millisecond, MaxInterval: time.Second,
		},
	})}
	for range 200 {
		h.now += time.Duration(h.random.IntN(int(200 * time.Millisecond)))
		h.meddle()
		h.finish()
		h.round()
		h.say()
	}
	return h.log.String()
}

// historian makes calls to a core, and logs what the core reports.
type historian struct {
	random   *rand.Rand
	core     *Core[row]
	log      strings.Builder
	now      time.Duration
	revision uint64
	inFlight []*Operation[row]
}

// meddle makes calls that come between rounds, for many keys at once.
func (h *historian) meddle() {
	h.core.Release(strconv.Itoa(h.random.IntN(100)), h.now)
	switch h.random.IntN(10) {
	case 0:
		h.core.SetPaused(h.now, func(r row) bool { return len(r.key)%2 == 0 })
	case 1:
		h.core.SetPaused(h.now, nil)
	case 2:
		for range 10 {
			h.core.AddOrphan(row{key: "s" + strconv.Itoa(h.random.IntN(100))}, h.revision)
		}
	case 3:
		h.core.SetGrouping(len(h.inFlight) > 0 || h.random.IntN(2) == 0)
	}
}

func (h *historian) finish() {
	for len(h.inFlight) > 0 && h.random.IntN(3) > 0 {
		i := h.random.IntN(len(h.inFlight))
		h.core.Settle(h.now, h.inFlight[i], h.outcome(h.inFlight[i]))
		h.inFlight = slices.Delete(h.inFlight, i, i+1)
	}
}

func (h *historian) outcome(it *Operation[row]) Outcome[row] {
	out := failed(it, strconv.Itoa(h.random.IntN(3)))
	out.Kind = Kind(h.random.IntN(int(Deleting) + 1))
	out.Delay = time.Duration(h.random.IntN(3)) * 50 * time.Millisecond
	out.Backoff = h.random.IntN(2) == 0
	out.Lost = h.random.IntN(8) == 0
	out.Jitter = float64(h.random.IntN(2)) * h.random.Float64()
	return out
}

func (h *historian) round() {
	c := h.core
	c.Begin(h.now, 1+h.random.IntN(16), h.random.IntN(2) == 0)
	var changes listed[row]
	// A key is observed once in a round.
	for key := h.random.IntN(50); key < 100; key += 1 + h.random.IntN(30) {
		lane := Lane(h.random.IntN(int(Resumption)))
		h.revision++
		r := row{key: strconv.Itoa(key), pendingID: uint64(h.random.IntN(2))}
		revision := h.revision - uint64(h.random.IntN(20)/19)
		changes = append(changes, Change[row]{r, revision, revision - uint64(h.random.IntN(3)/2), lane == Deletion, lane, false})
	}
	items := c.planFrom(&changes)
	ran := len(items) - h.random.IntN(len(items)/4+1)
	for i := range items {
		it := &items[i]
		fmt.Fprintf(&h.log, "%s@%d again=%t deleted=%t attempt=%d\n",
			it.Obj.key, it.Revision, it.Turn.Again, it.Deleted, int(it.Failures))
		switch {
		case i >= ran:
		case h.random.IntN(8) == 0 && !c.Renew(it, row{key: it.Obj.key, pendingID: it.Obj.pendingID}, h.revision+1, h.revision+1):
		case h.random.IntN(4) == 0 && it.HasEntry():
			launched := *it
			h.inFlight = append(h.inFlight, &launched)
		default:
			c.Settle(h.now, it, h.outcome(it))
		}
	}
	for i := len(items) - 1; i >= ran; i-- {
		c.Recall(c.round.now, &items[i])
	}
}

func (h *historian) say() {
	due, ok := h.core.NextDue()
	fmt.Fprintf(&h.log, "due=%s %t low=%d attempted=%d failing=%d version=%d %v\n",
		due, ok, h.core.Index.LowWatermark(), h.core.Index.Attempted(h.revision), h.core.Index.figures.Failing, h.core.Index.figures.FailureVersion,
		h.core.Breaker.State())
	h.core.Index.Unreconciled(0, func(d KeyInfo[row]) bool {
		fmt.Fprintf(&h.log, "%+v ", d)
		return true
	})
}

// The same calls with the same seed give the same plans, byte for byte (DESIGN section 3), although
// the core keeps its keys in a map.
func TestSameCallsGiveTheSamePlans(t *testing.T) {
	for calls := range uint64(10) {
		first := history(calls, 1)
		require.Greater(t, strings.Count(first, "again=true"), 100, "the history has few retries")
		for s := Ready; s < NumStates; s++ {
			if s != Requeue {
				require.Contains(t, first, "State:"+s.String(), "the history has no key in this state")
			}
		}
		require.Equal(t, first, history(calls, 1))
		require.NotEqual(t, first, history(calls, 2), "the seed has no effect")
	}
}
