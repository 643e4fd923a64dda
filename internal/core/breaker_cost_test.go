// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failsWithOwnClass makes an object fail with a class of its own.
func failsWithOwnClass(it *Operation[*thing]) Outcome[*thing] {
	return Outcome[*thing]{
		Kind: Failed, Text: &parked, Class: string(it.Obj.key), Object: it.Obj, NewRevision: it.Revision,
	}
}

// withOpenBreakers returns a plant with n open breakers, each of which holds one object. All their
// probes are due after an hour.
func withOpenBreakers(t testingT, n int) *plant {
	cfg := thingConfig(100)
	cfg.Breaker = &BreakerConfig{
		Failures: 1, Probes: 1, MinInterval: time.Hour, MaxInterval: time.Hour, ByClass: true,
	}
	p := &plant{Core: New(cfg)}
	p.rounds(newThings("down", n), failsWithOwnClass)
	require.Len(t, p.open, n)
	require.Equal(t, n, p.Count(Tripped))
	return p
}

// A round does not visit open breakers whose probes are not due (DESIGN section 6, no. 7). The test
// removes the breakers, so that a visit panics.
func TestRoundSkipsBreakersWhoseProbesAreNotDue(t *testing.T) {
	p := withOpenBreakers(t, 1000)
	open := p.open
	p.open = make([]*breaker[*thing], len(open))
	p.open[0] = open[0]
	fresh := newThings("fresh", 10)
	require.NotPanics(t, func() {
		p.now++
		p.round(fresh, succeeds)
		due, _ := p.NextDue()
		require.Equal(t, time.Hour, due)
	})
	p.open = open
	check(t, p.Core)
}

// Probes that are due at the same time begin in the order of their classes, in whatever order the
// breakers opened.
func TestProbesDueTogetherAreOrderedByClass(t *testing.T) {
	for _, classes := range [][]string{{"a", "b", "c"}, {"b", "c", "a"}, {"c", "a", "b"}} {
		cfg := breakerConfig(true)
		cfg.Failures = 1
		c := withBreaker(8, cfg)
		begin(c, 0, 1, classes...)
		items := c.Plan()
		for i := range items {
			c.Settle(0, &items[i], failedWith(&items[i], items[i].Obj.key))
		}
		check(t, c)
		due, _ := c.NextDue()
		c.Begin(due, 8, false)
		var begun []string
		c.due.Ascend(func(e *entry[row], _ int64) bool { begun = append(begun, e.key); return true })
		require.Len(t, begun, 3)
		require.Equal(t, "a", begun[0], "opened in the order %v", classes)
		c.Plan()
	}
}

// BenchmarkRoundWithOpenBreakers measures a round of one successful change beside open breakers
// whose probes are not due.
func BenchmarkRoundWithOpenBreakers(b *testing.B) {
	for _, n := range []int{0, 1000, 5000} {
		b.Run(fmt.Sprintf("open=%d", n), func(b *testing.B) {
			p := withOpenBreakers(b, n)
			fresh := newThings("fresh", 1)
			b.ReportAllocs()
			for b.Loop() {
				p.round(fresh, succeeds)
				p.NextDue()
			}
		})
	}
}
