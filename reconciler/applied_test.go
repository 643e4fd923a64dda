// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// All rows that were pending when a wait began are applied when it ends, even if other writers have
// written them meanwhile with an unchanged status.
func TestWaitEndsWithEveryRowAppliedDespiteOtherWriters(t *testing.T) {
	const rows = 10
	for name, every := range map[string]time.Duration{
		"another reconciler": 0, "a third party": 700 * time.Millisecond, "a fast third party": 30 * time.Millisecond,
	} {
		for _, kind := range []string{"single", "batches"} {
			eachConcurrency(t, name+", "+kind, func(e *env) {
				e.target.takes(time.Second)
				// The other writers write the rows after the waits have begun and before the main cursor reads
				// the table.
				e.loop.Pause()
				release := e.loop.Resume
				if every == 0 {
					cfg := e.config(reconciler.WithName("fast"), reconciler.WithoutPruning())
					cfg.Operations, cfg.SetStatus, cfg.GetStatus = newTarget(), (*object).SetOther, (*object).GetOther
					fast := e.start(cfg)
					fast.Pause()
					release = func() {
						fast.Resume()
						synctest.Wait()
						e.loop.Resume()
					}
				}
				synctest.Wait()
				until := e.put(1, ids(1, rows)...)
				over := map[string]chan int{}
				for name, wait := range waitsFor(e.loop, until) {
					has := make(chan int, 1)
					over[name] = has
					go func() {
						// The main cursor gets at least a quarter of the operations.
						ctx, cancel := context.WithTimeout(e.Context(), mainShare*rows*time.Second)
						defer cancel()
						assert.NoError(e, wait(ctx), name)
						has <- len(e.target.holds())
					}()
				}
				synctest.Wait()
				release()
				for range 60 {
					if every == 0 {
						break
					}
					for _, id := range ids(1, rows) {
						e.rewrite(id)
					}
					time.Sleep(every)
				}
				for name, has := range over {
					require.Equal(e, rows, <-has, "rows in the target when %s ended", name)
				}
				require.Len(e, e.target.take(), rows, "the statuses kept their IDs, so one update of each is enough")
				synctest.Wait()
			}, operate(kind), reconciler.WithRoundLimits(4, nil))
		}
	}
}

// waitsFor returns each kind of wait for a revision by its name. until must be the revision of the
// table.
func waitsFor(loop *reconciler.Loop[*object], until statedb.Revision) map[string]func(context.Context) error {
	wait := func(m reconciler.Milestone) func(context.Context) error {
		return func(ctx context.Context) error { _, err := loop.Wait(ctx, until, m); return err }
	}
	return map[string]func(context.Context) error{
		"Wait for Applied":   wait(reconciler.Applied),
		"Wait for Attempted": wait(reconciler.Attempted),
		"WaitAll":            func(ctx context.Context) error { _, err := loop.WaitAll(ctx, reconciler.Applied); return err },
		"WaitUntilReconciled": func(ctx context.Context) error {
			_, _, err := loop.WaitUntilReconciled(ctx, until)
			return err
		},
	}
}
