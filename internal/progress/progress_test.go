// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package progress

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/status"
)

// at returns a table that stays at a revision.
func at(revision statedb.Revision) func() statedb.Revision {
	return func() statedb.Revision { return revision }
}

// Waits are returned whatever the order in which they joined.
func TestPublishEndsOnlyTheWaitsThatAreReached(t *testing.T) {
	var p Progress[int]
	var joined []*Wait[int]
	random := rand.New(rand.NewPCG(1, 2))
	for _, i := range random.Perm(1000) {
		for m := range NumMilestones {
			w := NewWait[int](statedb.Revision(i+1), m)
			reached, _ := p.Join(w, at(0))
			require.False(t, reached)
			joined = append(joined, w)
		}
	}
	over := map[*Wait[int]]bool{}
	for _, step := range []struct{ revision, low statedb.Revision }{
		{10, 0}, {10, 5}, {300, 5}, {300, 11}, {299, 12}, {400, 400}, {900, 1}, {1000, 0},
	} {
		for _, w := range p.Publish(step.revision, step.low, 0) {
			require.False(t, over[w], "returned twice")
			over[w] = true
		}
		revision, low := p.Now()
		require.Equal(t, step.low, low)
		for _, w := range joined {
			reached := revision >= w.Until && (w.Milestone == Attempted || low == 0 || low > w.Until)
			require.True(t, over[w] || !reached, "%d, %s, at %d and %d", w.Until, w.Milestone, revision, low)
			if reached {
				again, _ := p.Join(NewWait[int](w.Until, w.Milestone), at(0))
				require.True(t, again)
			}
		}
		require.Equal(t, len(joined)-len(over), p.Waiting())
	}
	require.Len(t, over, len(joined))
}

// The cost of a round does not depend on the waits that go on.
func TestCostOfPublishIsIndependentOfTheWaits(t *testing.T) {
	var p Progress[int]
	for range 10_000 {
		p.Join(NewWait[int](1_000_000, Applied), at(0))
		p.Join(NewWait[int](1_000_000, Attempted), at(0))
	}
	revision := statedb.Revision(0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		revision++
		if over := p.Publish(revision, 1, 0); over != nil {
			t.Errorf("%d waits are over", len(over))
		}
	}))
}

func TestCanceledWaitIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Progress[int]
		ctx, cancel := context.WithCancel(t.Context())
		var errs []error
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, err := p.Await(ctx, 10, at(0))
			errs = append(errs, err)
		}()
		synctest.Wait()
		require.Equal(t, 1, p.Waiting())
		cancel()
		<-done
		require.Equal(t, []error{context.Canceled}, errs)
		require.Zero(t, p.Waiting())
		require.Empty(t, p.joined)
		require.Empty(t, p.Publish(10, 0, 0))
	})
}

// The wait is for a revision of the snapshot, so it waits for no later one. But a key of the snapshot whose row is
// written again, for the same change, may be read in that version: it is unreconciled since the wait's revision.
func TestWaitForASnapshotCoversItsRowsInLaterVersions(t *testing.T) {
	for _, when := range []string{"before the snapshot", "while it is read"} {
		t.Run(when, func(t *testing.T) {
			var p Progress[int]
			id := status.Pending().ID
			w := NewWait[int](6, Applied)
			if when == "while it is read" {
				p.NoteSnapshot(0, 6)
			}
			p.Join(w, at(6))
			if when == "before the snapshot" {
				p.NoteSnapshot(0, 6)
			}
			require.True(t, p.HasWindows())
			require.Equal(t, statedb.Revision(6), p.Since(id, 19), "the row was written again")
			require.Equal(t, statedb.Revision(5), p.Since(id, 5), "the row is that of the snapshot")
			require.Equal(t, statedb.Revision(19), p.Since(status.Pending().ID, 19), "its status was made after the wait began")
			require.Empty(t, p.Publish(6, 6, 6))
			require.Equal(t, []*Wait[int]{w}, p.Publish(6, 0, 6))
		})
	}
}

// A wait that began before main took a snapshot waits for the end of that snapshot, since rows may
// have been written again in between. Then it waits for these rows, but for no others.
func TestWaitCoversRowsRewrittenBeforeTheSnapshot(t *testing.T) {
	var p Progress[int]
	p.Publish(10, 0, 0)
	ids := []uint64{status.Pending().ID}
	var waits []*Wait[int]
	for _, until := range []statedb.Revision{15, 12, 40} {
		for m := range NumMilestones {
			w := NewWait[int](until, m)
			reached, _ := p.Join(w, at(20))
			require.False(t, reached)
			waits = append(waits, w)
		}
		ids = append(ids, status.Pending().ID)
	}
	require.True(t, p.HasWindows())
	require.Equal(t, statedb.Revision(12), p.Since(ids[0], 25), "found ahead of main")
	p.NoteSnapshot(10, 30)
	m := p.reading
	require.Equal(t, statedb.Revision(12), m.since(ids[0], 25), "made before both waits")
	require.Equal(t, statedb.Revision(12), m.since(ids[1], 25), "made before the second")
	require.Equal(t, statedb.Revision(11), m.since(ids[0], 11), "seen at an earlier revision")
	require.Equal(t, statedb.Revision(19), m.since(ids[0], 19), "not written since the waits began")
	require.Equal(t, statedb.Revision(25), m.since(ids[2], 25), "made after the waits for less than the snapshot")
	require.Equal(t, statedb.Revision(12), m.since(0, 25), "without an ID, its age is unknown")
	p.NoteSnapshot(30, 35)
	require.Empty(t, p.reading, "windows are for one snapshot")
	require.False(t, p.HasWindows())

	later := NewWait[int](20, Attempted)
	p.Join(later, at(35))
	require.Equal(t, []*Wait[int]{later}, p.Publish(29, 0, 0), "it began after the snapshot was taken")
	over := p.Publish(30, 12, 0)
	require.ElementsMatch(t, []*Wait[int]{waits[0], waits[2]}, over, "attempted, and one is unreconciled")
	over = p.Publish(30, 14, 0)
	require.Equal(t, []*Wait[int]{waits[3]}, over)
	over = p.Publish(30, 16, 0)
	require.Equal(t, []*Wait[int]{waits[1]}, over)
	require.Len(t, p.Publish(40, 0, 0), 2)
	require.Zero(t, p.Waiting())
}
