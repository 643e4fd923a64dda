// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRandomWalkAgreesWithTheModel lets a program, a target and a clock do as they
// please, and checks after every round that
//
//   - the core is where the model is: states, watermarks, counts, what is due when;
//   - the plan is one that the model allows: no key twice, the due that are due the
//     longest in every fourth place, changes in revision order;
//   - each key's operations never go back to an older version (DESIGN section 6, no. 2);
//   - what the target lacks is on its way, in exactly one state (nos. 3 and 4);
//   - the parts of the core agree with each other (see check).
//
// When the program falls silent and the target heals, the target comes to equal the
// table (no. 1), and the core holds nothing any more (no. 8).
func TestRandomWalkAgreesWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Config[row]{
			KeyOf:      keyOfRow,
			MinBackoff: 100 * time.Millisecond,
			MaxBackoff: time.Second,
			RoundSize:  rapid.IntRange(1, 9).Draw(t, "round size"),
		})
		walk := walker{world: w, t: t}
		for range rapid.IntRange(1, 80).Draw(t, "rounds") {
			walk.step()
		}
		w.calm()
		w.requireConverged()
	})
}

// walker draws what happens.
type walker struct {
	*world
	t *rapid.T
}

var (
	keys   = rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"})
	passes = rapid.SampledFrom([]time.Duration{
		0, time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second,
	})
	delays = rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 150 * time.Millisecond, 3 * time.Second})
	texts  = rapid.SampledFrom([]string{"no route", "no device"})
	// kinds leans towards failing: what succeeds leaves the core.
	kinds = rapid.SampledFrom([]Kind{Done, Failed, Failed, FailedForGood, BlockedOn, DoneAgain})
)

func (w *walker) step() {
	w.now += passes.Draw(w.t, "passes")
	for range rapid.IntRange(0, 6).Draw(w.t, "writes") {
		w.act()
	}
	if rapid.Bool().Draw(w.t, "release") {
		w.release(keys.Draw(w.t, "released"))
	}
	w.round(script{
		returned: rapid.SampledFrom([]int{0, 0, 1, 3, 7}).Draw(w.t, "returned"),
		outcome:  w.outcome,
		meanwhile: func() {
			for range rapid.IntRange(0, 2).Draw(w.t, "writes meanwhile") {
				w.act()
			}
			w.now += passes.Draw(w.t, "took")
		},
	})
}

// act is one write of the program, or of another reconciler.
func (w *walker) act() {
	key := keys.Draw(w.t, "key")
	switch rapid.SampledFrom([]string{"want", "want", "drop", "vouch", "echo"}).Draw(w.t, "write") {
	case "want":
		w.want(key)
	case "drop":
		w.drop(key)
	case "vouch":
		w.vouch(key)
	case "echo":
		w.echo(key)
	}
}

func (w *walker) outcome(*Item[row]) Outcome[row] {
	out := Outcome[row]{Kind: kinds.Draw(w.t, "kind"), Mark: rapid.Uint8().Draw(w.t, "mark")}
	switch out.Kind {
	case Failed, BlockedOn, DoneAgain:
		out.Delay = delays.Draw(w.t, "delay")
	}
	if out.Kind == Failed || out.Kind == FailedForGood {
		text := texts.Draw(w.t, "text")
		out.Failure = &text
	}
	return out
}
