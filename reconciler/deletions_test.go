// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// An object that was applied out of turn, while the main cursor was behind, leaves the target when it
// is deleted at any moment. Here the main cursor falls behind when it has just read all changes, and
// these changes and the retries that are due fill the round. So many other deletions come first that
// the catch-up cursor has no room for this one at once.
func TestObjectAppliedBesideABacklogLeavesTheTarget(t *testing.T) {
	const round, took, failing = 40, 10 * time.Millisecond, 8
	for _, c := range []struct {
		deletions uint64
		after     time.Duration
	}{
		{30, 240 * time.Millisecond}, {32, 220 * time.Millisecond}, {42, 160 * time.Millisecond},
		{44, 140 * time.Millisecond}, {54, 80 * time.Millisecond}, {56, 60 * time.Millisecond},
		{1, 100 * time.Millisecond}, {200, 100 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%d others, after %s", c.deletions, c.after), func(t *testing.T) {
			inBubble(t, func(e *env) {
				others := ids(3000, 3000+c.deletions-1)
				e.put(1, others...)
				e.pass(time.Second)
				e.target.deciding(func(c call) error {
					if c.id > 1000 && c.id <= 1000+failing {
						return errors.New("no")
					}
					return nil
				})
				e.put(1, ids(1001, 1000+failing)...)
				// The retries are due shortly.
				e.pass(95 * time.Millisecond)
				e.target.takes(took)
				e.put(1, ids(1, round-1)...)
				e.pass(took + took/2)
				e.put(1, 2000)
				e.pass(c.after)
				e.remove(others...)
				e.remove(2000)
				e.pass(20 * time.Second)
				require.NotContains(e, e.target.holds(), uint64(2000))
				require.Contains(e, e.target.calls(), "delete(2000)")
			}, nil, reconciler.WithRoundLimits(round, nil), reconciler.WithRetry(100*time.Millisecond, 100*time.Millisecond))
		})
	}
}

// A page of deletions continues where the previous one ended, even among the orphans of one sweep,
// which are all unreconciled since the same revision.
func TestPagesOfDeletionsHaveEachOrphanOfASweepOnce(t *testing.T) {
	const orphans, page = 120, 50
	sweeping(t, func(e *env, _ *lister) {
		e.put(1, 1)
		e.pass(time.Second)
		e.target.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("in use")
			}
			return nil
		})
		e.target.strays(ids(1001, 1000+orphans)...)
		require.Equal(e, orphans, e.sweep().Swept)
		e.pass(50 * time.Millisecond)
		listed := map[string]int{}
		query := inspect.ObjectQuery{Status: "Deleted", Limit: page}
		for pages := 1; ; pages++ {
			got := e.objects(query)
			require.LessOrEqual(e, len(got.Objects), page)
			for _, line := range got.Objects {
				listed[line.Key]++
			}
			if query.After = got.Next; got.Next == "" {
				break
			}
			require.Less(e, pages, 2+orphans/page, "pages")
		}
		require.Len(e, listed, orphans)
		for key, n := range listed {
			require.Equal(e, 1, n, key)
		}
	}, reconciler.WithRetry(time.Hour, time.Hour))
}

// If an operation changes the key of its object and fails, the failure counts for the original key, and
// that key is retried.
func TestFailureOfAnOperationThatChangesTheKeyIsRetried(t *testing.T) {
	spoiled(t, func(e *env) {
		var broken atomic.Bool
		broken.Store(true)
		e.target.deciding(func(c call) error {
			if broken.Load() && c.id == 1 {
				return errors.New("no")
			}
			return nil
		})
		until := e.put(1, ids(1, 3)...)
		e.pass(time.Second)
		broken.Store(false)
		over := e.wait(until, reconciler.Applied)
		e.pass(time.Minute)
		e.eachDone()
		select {
		case w := <-over:
			e.nothingUnapplied(w)
		default:
			e.Fatalf("the wait has not ended: %s", e.loop.Snapshot(e.Context()))
		}
		require.Zero(e, e.loop.Snapshot(e.Context()).LowWatermark)
		_, message, _ := e.health.Now()
		require.Equal(e, "OK, 3 object(s)", message)
	})
}

// spoiled runs a test with operations that change the key of an object when they fail: single ones and
// batches, with one and two workers.
func spoiled(t *testing.T, test func(e *env)) {
	for _, batches := range []bool{false, true} {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprintf("batches %t, workers %d", batches, workers), func(t *testing.T) {
				inBubble(t, test, func(e *env, cfg *reconciler.Config[*object]) {
					cfg.Operations = spoiler{e.target}
					if batches {
						cfg.BatchOperations = spoilerBatches{spoiler{e.target}, batchTarget{e.target}}
					}
				}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
			})
		}
	}
}
