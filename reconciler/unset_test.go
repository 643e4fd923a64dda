// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// unset writes rows without a status.
func (e *env) unset(ids ...uint64) statedb.Revision {
	return e.write(func(wtxn statedb.WriteTxn) {
		for _, id := range ids {
			_, _, err := e.table.Insert(wtxn, &object{ID: id, Value: 7})
			require.NoError(e, err)
		}
	})
}

// failures are outcomes that keep an object from running again for a long time. Their channels must
// be made in the bubble.
var failures = []struct {
	name string
	err  func() error
}{
	{"terminal", func() error { return reconciler.TerminalError(errors.New("no such name")) }},
	{"blocked", func() error { return reconciler.Blocked("device eth0 is missing", make(chan struct{})) }},
	{"blocked without a channel", func() error { return reconciler.Blocked("an operator") }},
	{"retry", func() error { return reconciler.RetryAfter(errors.New("busy"), 24*time.Hour) }},
}

// failingFor makes the operations on an object return err.
func (x *target) failingFor(id uint64, err error) {
	x.deciding(func(c call) error {
		if c.id == id && c.op != "prune" {
			return err
		}
		return nil
	})
}

// A wait for a deletion ends when the row is inserted again without a status, however long the
// deletion would have waited.
func TestUnsetRowEndsTheWaitForADeletion(t *testing.T) {
	for _, failure := range failures {
		t.Run(failure.name, func(t *testing.T) {
			everyWay(t, func(e *env) {
				e.put(works, 1)
				synctest.Wait()
				e.target.failingFor(1, failure.err())
				e.remove(1)
				synctest.Wait()
				over := e.waitFor(reconciler.Applied, 1)
				e.pass(time.Second)
				e.goesOn(over)
				e.unset(1)
				w := e.isOver(over, time.Second)
				require.ErrorIs(e, w.err, reconciler.ErrNoStatus)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
		})
	}
}

// The same holds if the row is inserted while the deletion runs.
func TestUnsetRowEndsTheWaitForADeletionInFlight(t *testing.T) {
	for _, failure := range failures {
		t.Run(failure.name, func(t *testing.T) {
			everyWay(t, func(e *env) {
				e.put(works, 1)
				synctest.Wait()
				e.target.failingFor(1, failure.err())
				e.target.lasting(func(call) time.Duration { return time.Second })
				e.remove(1)
				over := e.waitFor(reconciler.Applied, 1)
				e.pass(500 * time.Millisecond)
				e.unset(1)
				e.pass(500 * time.Millisecond)
				require.ErrorIs(e, e.isOver(over, time.Second).err, reconciler.ErrNoStatus)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
		})
	}
}

// A row whose status was removed is not unreconciled: it is neither failing nor blocked, and holds
// up no wait.
func TestUnsetRowIsNoLongerUnreconciled(t *testing.T) {
	for _, failure := range failures {
		for _, deleted := range []bool{false, true} {
			name := failure.name
			if deleted {
				name += ", deleted before"
			}
			t.Run(name, func(t *testing.T) {
				everyWay(t, func(e *env) {
					e.put(works, 1, 2)
					synctest.Wait()
					e.target.failingFor(1, failure.err())
					if deleted {
						e.remove(1)
					} else {
						e.put(2, 1)
					}
					synctest.Wait()
					s := e.loop.Snapshot(e.Context())
					require.Equal(e, 1, s.Failing+s.Blocked)
					e.target.take()
					over := e.wait(e.unset(1), reconciler.Applied)
					e.nothingUnapplied(e.isOver(over, 0))

					level, message, err := e.health.Now()
					require.Equal(e, cell.StatusOK, level, "%s: %v", message, err)
					require.Equal(e, "OK, 2 object(s)", message)
					s = e.loop.Snapshot(e.Context())
					require.Zero(e, s.Failing, "failing")
					require.Zero(e, s.Blocked, "blocked")
					require.Zero(e, s.LowWatermark)
					for _, c := range s.States {
						require.Zero(e, c.Count, c.State)
					}
					e.pass(48 * time.Hour)
					require.Empty(e, e.target.calls())
				}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
			})
		}
	}
}

// A retry reads the row in the table. If the row has no status by then, it does not run, whether or
// not the round has read the change.
func TestRetryOfAnUnsetRowIsNotRun(t *testing.T) {
	for _, size := range []int{1, 2, 4} {
		inBubble(t, func(e *env) {
			e.target.deciding(func(c call) error {
				if c.id == 1 {
					return errors.New("no")
				}
				time.Sleep(200 * time.Millisecond) // until the retry is due
				return nil
			})
			e.put(1, 1)
			synctest.Wait()
			e.put(1, 2)
			e.pass(50 * time.Millisecond)
			e.target.take()
			// The row is behind more changes than a round reads.
			e.put(1, ids(10, 30)...)
			e.unset(1)
			e.pass(time.Minute)
			require.NotContains(e, e.target.calls(), "update(1) fail", "round size %d", size)
			require.Equal(e, reconciler.StatusKindUnset, e.kind(1))
			level, message, _ := e.health.Now()
			require.Equal(e, cell.StatusOK, level, message)
		}, nil, reconciler.WithRoundLimits(size, nil))
	}
}
