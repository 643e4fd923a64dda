// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// pacedBatches is a target whose batches take a time each, however many objects they have.
type pacedBatches struct {
	batchTarget
	takes *atomic.Int64
}

func (p pacedBatches) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	time.Sleep(time.Duration(p.takes.Load()))
	p.batchTarget.UpdateBatch(ctx, txn, batch)
}

// Batches that have been fast are not queued by the thousand objects for workers that are
// busy: what is queued is decided, and runs in the version that it had then. A few batches are
// the one that each worker runs and three more.
func TestFastBatchesAreNotQueuedFarAhead(t *testing.T) {
	const round, rows = 100, 5000
	for _, workers := range []int{2, 4} {
		t.Run(fmt.Sprintf("workers %d", workers), func(t *testing.T) {
			var takes atomic.Int64
			inBubble(t, func(e *env) {
				takes.Store(int64(50 * time.Microsecond))
				for value := range 20 {
					e.put(value, ids(1, rows)...)
					e.pass(time.Second)
				}
				e.eachDone()
				e.target.take()
				takes.Store(int64(time.Second))
				e.put(100, ids(1, rows)...)
				for range 5 {
					e.pass(500 * time.Millisecond)
					n := e.inFlight()
					require.Positive(e, n)
					require.LessOrEqual(e, n, workers*4*round, "objects that workers have or are queued for them")
				}
				e.pass(2 * time.Minute)
				e.eachDone()
			}, func(e *env, cfg *reconciler.Config[*object]) {
				cfg.BatchOperations = pacedBatches{batchTarget{e.target}, &takes}
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(round, nil))
		})
	}
}

// inFlight returns how many objects are.
func (e *env) inFlight() int {
	for _, c := range e.loop.Snapshot(e.Context()).States {
		if c.State == "in flight" {
			return c.Count
		}
	}
	e.Fatal("there is no such state")
	return 0
}

// What is released before a pass begins to plan runs in that pass. Somebody who pauses objects
// makes time pass between the two here: paused is called for those that are paused already.
func TestReleaseIsRunInThePassThatTakesItIn(t *testing.T) {
	inBubble(t, func(e *env) {
		open := make(chan struct{})
		e.target.deciding(func(c call) error {
			if c.id == 1 {
				select {
				case <-open:
				default:
					return reconciler.Blocked("the channel", open)
				}
			}
			return nil
		})
		e.put(1, 1, 5)
		e.pass(time.Second)
		e.loop.PauseObjects(func(o *object) bool { return o.ID == 5 })
		e.put(1, 5)
		e.pass(time.Second)
		e.target.takes(100 * time.Millisecond)
		e.put(1, 2)
		e.pass(50 * time.Millisecond)
		e.target.take()
		// The loop is in an operation. What comes meanwhile is there for the next pass.
		e.put(1, 3)
		close(open)
		e.loop.PauseObjects(func(o *object) bool {
			time.Sleep(time.Millisecond)
			return o.ID == 5
		})
		e.pass(time.Minute)
		batches := map[uint64]int{}
		for _, c := range e.target.take() {
			batches[c.id] = c.batch
		}
		require.Equal(e, batches[3], batches[1], "the batch of what was released, and of what was written")
	}, operationKinds[1].change)
}
