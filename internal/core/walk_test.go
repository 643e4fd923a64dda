// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRandomWalkAgreesWithTheModel makes random writes, outcomes and pauses of time, and checks
// after every round that
//
//   - the core agrees with the model: states, watermarks, counts, due times;
//   - the core runs what the model runs next: each lane in its places, every fourth place for the keys that
//     have been due for longest, the keys of a lane in order, no key twice;
//   - the operations of a key never overlap and never go back to an older version (DESIGN section 6,
//     no. 2), and of each group at most one object is worked on at a time;
//   - each object that the target lacks is in exactly one state (nos. 3 and 4);
//   - each change that counts as attempted has been, even if others write the same rows;
//   - a paused object is not worked on;
//   - in half of the walks, where a ledger takes records: each key that is not reconciled has the
//     right record, or its change holds the mark; no other key has one; a reader is told that a row
//     is done only if this version was applied, and nothing else until a later run fails (no. 5).
//
// When the writes stop and the target works, the target comes to equal the table (no. 1), and the
// core becomes empty (no. 8), and so does the ledger.
func TestRandomWalkAgreesWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Config[row]{Limits: drawLimits(t), Records: rapid.Bool().Draw(t, "records")})
		walk := walker{world: w, t: t, workers: rapid.Bool().Draw(t, "workers")}
		w.group(rapid.Bool().Draw(t, "groups"))
		for range rapid.IntRange(1, 60).Draw(t, "rounds") {
			walk.step()
		}
		w.calm()
		w.requireConverged()
	})
}

func drawLimits(t *rapid.T) Limits {
	return Limits{
		MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Second,
		RoundSize: rapid.IntRange(1, 12).Draw(t, "round size"),
		Jitter:    rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(t, "jitter"),
	}
}

// walker draws the steps of a random walk.
type walker struct {
	*world
	t *rapid.T
	// workers: operations may be launched.
	workers bool
}

var (
	keys   = rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"})
	passes = rapid.SampledFrom([]time.Duration{
		0, time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
		400 * time.Millisecond, 2 * time.Second,
	})
	delays = rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 150 * time.Millisecond, 3 * time.Second})
	texts  = rapid.SampledFrom([]string{"no route", "no device"})
	// kinds has more failures than successes: a key that succeeds leaves the core.
	kinds   = rapid.SampledFrom([]Kind{Done, Failed, Failed, FailedForGood, BlockedOn, DoneAgain, Deleting})
	groups  = rapid.SampledFrom([]string{"", "g", "g", "h"})
	jitters = rapid.SampledFrom([]float64{0, 0.25, 0.5, 0.99})
	few     = rapid.SampledFrom([]int{0, 0, 1, 3, 7})
	rarely  = rapid.SampledFrom([]bool{true, false, false, false, false, false})
)

func (w *walker) step() {
	w.now += passes.Draw(w.t, "passes")
	w.writes("writes", 6)
	w.intervene()
	w.finishSome()
	w.refreshSome()
	if rarely.Draw(w.t, "a pass without a round") {
		w.publish(w.until())
	}
	size := 1 << 30
	if rarely.Draw(w.t, "few free workers") {
		size = rapid.IntRange(0, 3).Draw(w.t, "size")
	}
	w.round(script{
		size: size, workers: w.workers,
		before: func() {
			if rarely.Draw(w.t, "the target is slow") {
				w.slow = true
			}
		},
		picks:    func(n int) int { return rapid.IntRange(-1, n-1).Draw(w.t, "read ahead") },
		waits:    func() bool { return rapid.Bool().Draw(w.t, "waits") },
		looks:    func() bool { return rarely.Draw(w.t, "looked up") },
		returned: few.Draw(w.t, "returned"),
		launches: func() bool { return w.workers && rapid.Bool().Draw(w.t, "launched") },
		right:    w.right,
		outcome:  w.outcome,
		meanwhile: func() {
			w.writes("writes meanwhile", 2)
			w.now += passes.Draw(w.t, "took")
		},
		until: w.until(),
	})
}

// refreshSome refreshes some objects.
func (w *walker) refreshSome() {
	for range few.Draw(w.t, "refreshes") {
		w.refreshUnchanged(keys.Draw(w.t, "key to refresh"), rapid.Bool().Draw(w.t, "forced"))
	}
	for range few.Draw(w.t, "verifications") {
		w.verify(keys.Draw(w.t, "key to verify"))
	}
}

// right draws whether a look finds the target right.
func (w *walker) right() bool { return rapid.Bool().Draw(w.t, "right") }

// until draws the time by which a change was observed that ceases to hold the mark.
func (w *walker) until() time.Duration {
	if w.ledger == nil || !rarely.Draw(w.t, "record") {
		return -1
	}
	return w.now - passes.Draw(w.t, "patience")
}

// finishSome ends some of the launched operations, in any order.
func (w *walker) finishSome() {
	for range few.Draw(w.t, "finished") {
		if len(w.jobs) == 0 {
			return
		}
		i := rapid.IntRange(0, len(w.jobs)-1).Draw(w.t, "job")
		w.finish(i, w.now-passes.Draw(w.t, "ended ago"), w.outcome(), w.right)
	}
}

// intervene makes the calls that users and other goroutines cause between rounds.
func (w *walker) intervene() {
	if rapid.Bool().Draw(w.t, "release") {
		w.release(keys.Draw(w.t, "released"))
	}
	if rarely.Draw(w.t, "retry") {
		w.retry(keys.Draw(w.t, "retried"))
	}
	if rarely.Draw(w.t, "retry all") {
		w.retryAll()
	}
	if rarely.Draw(w.t, "breaker closes") {
		w.endBackoffs()
	}
	if rarely.Draw(w.t, "recall") {
		w.recall(few.Draw(w.t, "recalled"))
	}
	if rarely.Draw(w.t, "pause") {
		w.pause(rapid.SliceOfN(keys, 0, 4).Draw(w.t, "paused")...)
	}
	if rarely.Draw(w.t, "orphan") {
		w.leaveOrphan(keys.Draw(w.t, "orphan key"))
	}
	if rarely.Draw(w.t, "group") {
		w.group(rapid.Bool().Draw(w.t, "groups"))
	}
	if rarely.Draw(w.t, "limit") {
		w.limit(drawLimits(w.t))
	}
}

// writes makes up to most writes.
func (w *walker) writes(what string, most int) {
	for range rapid.IntRange(0, most).Draw(w.t, what) {
		w.act()
	}
}

// act makes one write of the program, or of another reconciler.
func (w *walker) act() {
	key := keys.Draw(w.t, "key")
	switch rapid.SampledFrom([]string{"want", "want", "drop", "write done", "unset", "refresh", "rewrite", "rewrite"}).Draw(w.t, "write") {
	case "want":
		w.want(key, groups.Draw(w.t, "group"))
	case "drop":
		w.drop(key)
	case "write done":
		w.writeDone(key)
	case "unset":
		w.unset(key)
	case "refresh":
		w.refresh(key)
	case "rewrite":
		w.rewrite(key)
	}
}

func (w *walker) outcome() Outcome[row] {
	out := Outcome[row]{Kind: kinds.Draw(w.t, "kind"), RowKind: rapid.Uint8().Draw(w.t, "mark")}
	out.Jitter = jitters.Draw(w.t, "jitter")
	switch out.Kind {
	case Failed, BlockedOn, DoneAgain, Deleting:
		out.Delay = delays.Draw(w.t, "delay")
	}
	if out.Kind == DoneAgain || out.Kind == Deleting {
		out.Backoff = rapid.Bool().Draw(w.t, "backoff")
	}
	if out.Kind == Failed {
		out.Final = rarely.Draw(w.t, "final")
	}
	if out.Kind == FailedForGood {
		out.GivenUp = rapid.Bool().Draw(w.t, "given up")
	}
	if out.Kind == BlockedOn || out.Kind == Deleting {
		text := texts.Draw(w.t, "reason")
		out.Text = &text
	}
	if out.Kind == Failed || out.Kind == FailedForGood {
		text := texts.Draw(w.t, "text")
		out.Text = &text
	}
	return out
}
