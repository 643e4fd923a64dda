// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crowded returns a core with n keys, of which the first half waits for its turn and the other for a retry.
func crowded(n int) (p *plant, things []*thing) {
	p = &plant{Core: newThingCore(n)}
	things = newThings("o", n)
	p.round(things[n/2:], parks)
	for i, o := range things[:n/2] {
		p.Observe(Change[*thing]{Obj: o, Revision: uint64(n + i), Since: uint64(n + i), Lane: Backlog})
	}
	return p, things
}

func TestPauseVisitsFewKeysAtATime(t *testing.T) {
	const n = 10 * maxWalk
	p, _ := crowded(n)
	calls := 0
	p.SetPaused(func(*thing) bool { calls++; return true })
	require.LessOrEqual(t, calls, maxWalk)
	// No key that no walk has visited is run.
	p.Begin(0, n, false)
	var op Operation[*thing]
	require.False(t, p.Next(&op, &p.from))
	require.LessOrEqual(t, calls, 2*maxWalk)
	for walks, more := 0, true; more; walks++ {
		before := calls
		more = p.Walk(0)
		require.LessOrEqual(t, calls, before+2*maxWalk)
		require.LessOrEqual(t, walks, n/maxWalk)
	}
	require.Equal(t, n/2, p.Index.Figures().States[Paused])

	p.SetPaused(nil)
	for more := true; more; {
		before := p.Index.Figures().States[Paused]
		more = p.Walk(0)
		require.LessOrEqual(t, before-p.Index.Figures().States[Paused], maxWalk)
	}
	require.Zero(t, p.Index.Figures().States[Paused])
	require.Equal(t, n/2, p.Index.Figures().States[Ready])
}

func TestRetryOfAllVisitsFewKeysAtATime(t *testing.T) {
	const n = 10 * maxWalk
	p, _ := crowded(n)
	var told []int
	p.RetryAllNow(func(n int) { told = append(told, n) })
	p.RetryAllNow(func(n int) { told = append(told, n) })
	due := func() int { return p.queues.due.CountUpTo(int64(time.Second/10), n) }
	for more := true; more; {
		before := due()
		more = p.Walk(time.Second / 10)
		require.LessOrEqual(t, due()-before, maxWalk)
	}
	require.Equal(t, []int{n / 2, n / 2}, told)
	require.Equal(t, n/2, due())
}

// Callers that give up do not take their calls back: however many there are, they do not keep the loop busy.
func TestCallsForARetryOfAllShareAWalk(t *testing.T) {
	const n = 4 * maxWalk
	p, _ := crowded(n)
	answered, walks := 0, 0
	for range 100 {
		p.RetryAllNow(func(made int) {
			require.Equal(t, n/2, made)
			answered++
		})
	}
	for p.Walk(time.Second / 10) {
		walks++
	}
	require.Equal(t, 100, answered)
	require.LessOrEqual(t, walks, 2*(n/maxWalk+1))
}

// Keys come and go while a walk goes on: each that was there when it began, and stays, is visited.
func TestWalkVisitsAllKeysThatStay(t *testing.T) {
	const n = 4 * maxWalk
	p, things := crowded(n)
	p.SetPaused(func(*thing) bool { return true })
	for i := 0; p.Walk(0); i++ {
		for j := i; j < n/2; j += 5 {
			if o := things[j]; p.keys.find(o) != nil {
				p.ObserveSettled(o, uint64(3*n), RowUnset)
			}
		}
		for _, o := range newThings("new", 100*(i+1)) {
			p.Observe(Change[*thing]{Obj: o, Revision: uint64(4*n + i), Since: uint64(4*n + i), Lane: Fresh})
		}
	}
	f := p.Index.Figures()
	require.Zero(t, f.States[Ready])
	for _, e := range p.keys.entries {
		require.True(t, e.version.paused)
	}
}
