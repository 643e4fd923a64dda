// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
)

// Publishing wakes those whose revision is reached, in any order of joining, and nobody
// else, whichever of the two marks it is that holds them up.
func TestPublishingEndsTheWaitsThatAreReachedAndNoOthers(t *testing.T) {
	var p progress[int]
	var joined []*revisionWait[int]
	random := rand.New(rand.NewPCG(1, 2))
	for _, i := range random.Perm(1000) {
		for m := range numMilestones {
			w := newRevisionWait[int](statedb.Revision(i+1), m)
			reached, _ := p.join(w)
			require.False(t, reached)
			joined = append(joined, w)
		}
	}
	over := map[*revisionWait[int]]bool{}
	for _, step := range []struct{ revision, low statedb.Revision }{
		{10, 0}, {10, 5}, {300, 5}, {300, 11}, {299, 12}, {400, 400}, {900, 1}, {1000, 0},
	} {
		for _, w := range p.publish(step.revision, step.low) {
			require.False(t, over[w], "told twice")
			over[w] = true
		}
		revision, low := p.now()
		require.Equal(t, step.low, low)
		for _, w := range joined {
			reached := revision >= w.until && (w.milestone == Attempted || low == 0 || low > w.until)
			require.True(t, over[w] || !reached, "%d, %s, at %d and %d", w.until, w.milestone, revision, low)
			if reached {
				again, _ := p.join(newRevisionWait[int](w.until, w.milestone))
				require.True(t, again)
			}
		}
		require.Equal(t, len(joined)-len(over), p.waits[Attempted].Len()+p.waits[Applied].Len())
	}
	require.Len(t, over, len(joined))
}

// That nobody is woken who was not waiting for just that is the same test; what a round pays
// for those who go on waiting is this one.
func TestPublishingCostsTheSameHoweverManyWait(t *testing.T) {
	var p progress[int]
	for range 10_000 {
		p.join(newRevisionWait[int](1_000_000, Applied))
		p.join(newRevisionWait[int](1_000_000, Attempted))
	}
	revision := statedb.Revision(0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		revision++
		if over := p.publish(revision, 1); over != nil {
			t.Errorf("%d waits are over", len(over))
		}
	}))
}

func TestWaitThatEndedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p progress[int]
		ctx, cancel := context.WithCancel(t.Context())
		var errs []error
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, err := p.wait(ctx, 10)
			errs = append(errs, err)
		}()
		synctest.Wait()
		require.Equal(t, 1, p.waits[Attempted].Len())
		cancel()
		<-done
		require.Equal(t, []error{context.Canceled}, errs)
		require.Zero(t, p.waits[Attempted].Len())
		require.Empty(t, p.publish(10, 0))
	})
}
