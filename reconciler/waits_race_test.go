// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// racingTable calls race once, after a caller has read the revision of the table, and raceRow after it has
// read a row with a watch channel.
type racingTable struct {
	statedb.RWTable[*object]
	race, raceRow atomic.Pointer[func()]
}

func (x *racingTable) Revision(txn statedb.ReadTxn) statedb.Revision {
	revision := x.RWTable.Revision(txn)
	if race := x.race.Swap(nil); race != nil {
		(*race)()
	}
	return revision
}

func (x *racingTable) GetWatch(txn statedb.ReadTxn, q statedb.Query[*object]) (*object, statedb.Revision, <-chan struct{}, bool) {
	row, revision, watch, found := x.RWTable.GetWatch(txn, q)
	if race := x.raceRow.Swap(nil); race != nil {
		(*race)()
	}
	return row, revision, watch, found
}

// A wait for a revision ends when the revision is reached. It does not wait for later writes, even
// if main takes a later snapshot while the wait begins.
func TestWaitForARevisionDoesNotWaitForLaterOnes(t *testing.T) {
	table := &racingTable{}
	inBubble(t, func(e *env) {
		stuck := e.target.stick(2)
		defer stuck.free(2)
		until := e.put(1, 1)
		e.pass(time.Second)
		e.put(1, 2)
		e.pass(time.Second)
		wait := func(f func(ctx context.Context) error) {
			ctx, cancel := context.WithTimeout(e.Context(), time.Second)
			defer cancel()
			row := e.get(3)
			race := func() {
				e.put(1, 3)
				// The loop reads the row, unless it waits for this goroutine.
				for range 10_000 {
					if now := e.get(3); now != row && now.Status.Kind == reconciler.StatusKindDone {
						return
					}
					runtime.Gosched()
				}
			}
			table.race.Store(&race)
			require.NoError(e, f(ctx))
		}
		wait(func(ctx context.Context) error {
			_, _, err := e.loop.WaitUntilReconciled(ctx, until)
			return err
		})
		wait(func(ctx context.Context) error {
			_, err := e.loop.Wait(ctx, until, reconciler.Attempted)
			return err
		})
	}, func(e *env, cfg *reconciler.Config[*object]) {
		table.RWTable = e.table
		cfg.Table = table
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
}

// The operation ends when the wait has read the next version, and does not wait for it yet.
func TestOperationThatEndsBetweenTwoVersionsEndsWaitFor(t *testing.T) {
	for _, change := range []configure{nil, beside} {
		table := &racingTable{}
		inBubble(t, func(e *env) {
			e.target.lasting(func(call) time.Duration { return time.Second })
			e.put(1, 1)
			over := e.waitFor(reconciler.Applied, 1)
			e.pass(500 * time.Millisecond)
			race := func() { time.Sleep(600 * time.Millisecond) }
			table.raceRow.Store(&race)
			e.put(2, 1)
			e.pass(600 * time.Millisecond)
			e.nothingUnapplied(e.isOver(over, 1100*time.Millisecond))
			e.pass(time.Minute)
		}, both(change, func(e *env, cfg *reconciler.Config[*object]) {
			table.RWTable = e.table
			cfg.Table = table
		}), reconciler.WithoutPruning())
	}
}
