// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/tests/long"
)

type bounds struct {
	after, upTo time.Duration
	ok          bool
}

func boundsOf(after, upTo time.Duration, ok bool) bounds { return bounds{after, upTo, ok} }

func TestTimesAreThoseOfTheSamplesAround(t *testing.T) {
	var times ledger.Times
	require.Equal(t, bounds{}, boundsOf(times.Written(0)), "nothing is known before the first sample")
	times.Note(10, 5, 0)
	times.Note(20, 5, 4)
	times.Note(30, 8, 4)
	times.Note(40, 8, 4) // only prolongs the sample before
	times.Note(50, 9, 8)
	for _, test := range []struct {
		revision           statedb.Revision
		written, attempted bounds
	}{
		{0, bounds{-1, 10, true}, bounds{-1, 10, true}},
		{1, bounds{-1, 10, true}, bounds{10, 20, true}},
		{4, bounds{-1, 10, true}, bounds{10, 20, true}},
		{5, bounds{-1, 10, true}, bounds{40, 50, true}},
		{6, bounds{20, 30, true}, bounds{40, 50, true}},
		{8, bounds{20, 30, true}, bounds{40, 50, true}},
		{9, bounds{40, 50, true}, bounds{}},
		{10, bounds{}, bounds{}},
	} {
		require.Equal(t, test.written, boundsOf(times.Written(test.revision)), "revision %d", test.revision)
		require.Equal(t, test.attempted, boundsOf(times.Applied(test.revision)), "revision %d", test.revision)
	}
	require.Equal(t, 4, times.Len())
}

func TestUnchangedRevisionsAddNoSample(t *testing.T) {
	var times ledger.Times
	times.Note(1, 3, 2)
	for now := range time.Duration(1000) {
		times.Note(now, 3, 2)
	}
	require.Equal(t, 1, times.Len())
	times.Note(2000, 2, 1)
	require.Equal(t, 1, times.Len(), "a revision that decreases counts as unchanged")
	times.Note(1000, 4, 2)
	require.Equal(t, bounds{2000, 2000, true}, boundsOf(times.Written(4)), "so does a time that decreases")
}

// history is a random history of writes and of the mark, with all that is true of it.
type history struct {
	rng *rand.Rand
	now time.Duration
	// written and attempted have the time of each revision from 1 on; 0 for times before the first
	// sample.
	written, attempted []time.Duration
	first              time.Duration
	// natural is the greatest gap between two samples.
	natural time.Duration
}

// step lets a random time pass, with random writes, and returns the arguments of Note.
func (h *history) step(longest time.Duration) (now time.Duration, table, mark statedb.Revision) {
	before := h.now
	for range h.rng.IntN(4) {
		h.now += time.Duration(h.rng.Int64N(int64(longest)))
		if h.rng.IntN(3) > 0 {
			h.written = append(h.written, h.now)
		}
		if h.rng.IntN(3) > 0 && len(h.attempted) < len(h.written) {
			h.attempted = append(h.attempted, h.now)
		}
	}
	h.now += time.Duration(h.rng.Int64N(int64(longest)))
	h.natural = max(h.natural, h.now-before)
	return h.now, statedb.Revision(len(h.written)), statedb.Revision(len(h.attempted))
}

// check compares the bounds for all revisions with the history. share is the share of a revision's age
// which its bounds may be apart; 0 means any.
func (h *history) check(t *testing.T, of func(statedb.Revision) (after, upTo time.Duration, ok bool), truth []time.Duration, share time.Duration) {
	last := bounds{after: -1}
	for i, at := range truth {
		got := boundsOf(of(statedb.Revision(i + 1)))
		if !got.ok || at < got.after || at > got.upTo {
			t.Fatalf("revision %d of %v: the bounds are %+v", i+1, at, got)
		}
		if got.after < last.after || got.upTo < last.upTo {
			t.Fatalf("revision %d: the bounds %+v decrease after %+v", i+1, got, last)
		}
		if got.after == -1 && (got.upTo != h.first || at > h.first) {
			t.Fatalf("revision %d: the bounds are %+v, the first sample was at %v", i+1, got, h.first)
		}
		if share > 0 && got.after >= 0 && got.upTo-got.after > max(2*h.natural, (h.now-got.after)/share) {
			t.Fatalf("revision %d, %v ago: the bounds are %v apart", i+1, h.now-got.upTo, got.upTo-got.after)
		}
		last = got
	}
	if _, _, ok := of(statedb.Revision(len(truth) + 1)); ok {
		t.Fatal("there are bounds for a revision that is not written")
	}
}

func TestBoundsContainTheTrueTimes(t *testing.T) {
	for seed := range uint64(long.Times(8)) {
		h := &history{rng: rand.New(rand.NewPCG(seed, 0))}
		var times ledger.Times
		// Some histories have pauses, and a clock that stands still.
		longest := []time.Duration{1, 2, time.Millisecond, time.Second}[seed%4]
		// Without them the bounds are close, compared with the age of the revision.
		pauses := seed%8 >= 4
		share := time.Duration(8)
		if pauses || longest < time.Millisecond {
			share = 0
		}
		for step := range 10_000 {
			pause := longest
			if pauses && h.rng.IntN(100) == 0 {
				pause = longest * 1000
			}
			times.Note(h.step(pause))
			if step == 0 {
				h.first = h.now
			}
			require.LessOrEqual(t, times.Len(), ledger.MaxSamples)
			if step%2499 == 0 || step == 9999 {
				h.check(t, times.Written, h.written, share)
				h.check(t, times.Applied, h.attempted, share)
			}
		}
	}
}

func TestTimesAreReadWhileTheLoopNotesThem(t *testing.T) {
	var times ledger.Times
	const last = 5_000
	times.Note(0, 0, 0)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for revision := statedb.Revision(1); revision <= last; {
				after, upTo, ok := times.Written(revision)
				if !ok {
					continue
				}
				// Revision n is written at time n.
				if at := time.Duration(revision); at < after || at > upTo {
					t.Errorf("revision %d: the bounds are %d and %d", revision, after, upTo)
					return
				}
				revision++
			}
		})
	}
	for revision := statedb.Revision(1); revision <= last; revision++ {
		times.Note(time.Duration(revision), revision, revision-1)
	}
	all.Wait()
}

func TestLateRevisionIsAppliedWhenItsRowIsDeleted(t *testing.T) {
	var times ledger.Times
	times.Note(10, 1000, 1000)
	times.Note(20, 2000, 2000)
	times.NoteLate(30, 1500)
	require.Equal(t, bounds{10, 30, true}, boundsOf(times.Applied(1500)))
	require.Equal(t, bounds{10, 20, true}, boundsOf(times.Applied(1501)), "it had no row")
	times.NoteLate(40, 1500)
	require.Equal(t, bounds{10, 40, true}, boundsOf(times.Applied(1500)), "a refresh failed, and then did not")

	for late := range statedb.Revision(512) {
		times.NoteLate(50, 1001+late%400+late/400)
	}
	for late := range statedb.Revision(600) {
		times.NoteLate(time.Duration(60+late), 1+late)
	}
	require.Equal(t, bounds{-1, 60 + 599, true}, boundsOf(times.Applied(600)))
	require.Equal(t, bounds{10, 60 + 87, true}, boundsOf(times.Applied(1500)), "it may have been any that was dropped")
	require.Equal(t, bounds{10, 20, true}, boundsOf(times.Applied(1502)), "none so high was dropped")
}
