// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// recordedMetrics is a Metrics that records its calls in order, each with the kind of the status that row 1
// had then.
type recordedMetrics struct {
	mu     sync.Mutex
	events []string
	// each is called with every event; it may be nil.
	each func()
	kind func() string
}

func (m *recordedMetrics) add(event string) {
	if m.each != nil {
		m.each()
	}
	if m.kind != nil {
		event += " while " + m.kind()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, event)
}

func (m *recordedMetrics) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	events := m.events
	m.events = nil
	return events
}

func (m *recordedMetrics) ReconciliationDuration(_ cell.FullModuleID, _, operation string, _ time.Duration) {
	m.add(operation)
}

func (m *recordedMetrics) ReconciliationErrors(_ cell.FullModuleID, _ string, failed, current int) {
	m.add(fmt.Sprintf("errors %d, %d", failed, current))
}

func (m *recordedMetrics) PruneError(cell.FullModuleID, string, error)            { m.add("prune error") }
func (m *recordedMetrics) PruneDuration(cell.FullModuleID, string, time.Duration) { m.add("prune") }

// A duration is reported before the status is written, the number of errors afterwards.
func TestDurationsComeBeforeTheStatusAndCountsAfterIt(t *testing.T) {
	for _, kind := range operationKinds {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, workers), func(t *testing.T) {
				m := &recordedMetrics{}
				inBubble(t, func(e *env) {
					m.kind = func() string {
						if o := e.get(1); o != nil {
							return o.Status.Kind.String()
						}
						return "none"
					}
					m.take()
					e.target.failing("no")
					e.put(1, 1)
					e.pass(50 * time.Millisecond)
					events := m.take()
					require.Equal(e, "update while Pending", events[0])
					require.Equal(e, "errors 1, 1 while Error", events[1])
					e.target.failing("")
					e.pass(time.Second)
					events = m.take()
					require.Equal(e, "update while Error", events[0])
					require.Equal(e, "errors 0, 0 while Done", events[1])
				}, kind.change, reconciler.WithMetrics(m), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
			})
		}
	}
}

// Metrics may write the table, or wait for a goroutine that does, so they are called without its
// lock. The test runs in real time: in a bubble, a goroutine that waits for a lock stops the time.
func TestMetricsAreNeverCalledWhileTheTableIsLocked(t *testing.T) {
	for _, kind := range operationKinds {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, workers), func(t *testing.T) {
				e := newEnv(t)
				m := &recordedMetrics{each: func() {
					locked := make(chan struct{})
					go func() {
						e.db.WriteTxn(e.table).Abort()
						close(locked)
					}()
					select {
					case <-locked:
					case <-time.After(10 * time.Second):
						t.Error("the table is locked")
					}
				}}
				cfg := e.config(reconciler.WithMetrics(m), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
				operate(kind.name)(e, &cfg)
				e.target.deciding(func(c call) error {
					if c.id == 3 {
						return errors.New("no")
					}
					return nil
				})
				loop := e.start(cfg)
				for value := range 3 {
					_, err := loop.Wait(e.Context(), e.put(value, ids(1, 5)...), reconciler.Attempted)
					require.NoError(t, err)
				}
				_, err := loop.Wait(e.Context(), e.remove(1, 2), reconciler.Attempted)
				require.NoError(t, err)
				e.stop()
				require.NotEmpty(t, m.take())
			})
		}
	}
}

// While an object is unreconciled, WaitUntilReconciled returns the requested revision or the
// revision of the last requested change, whichever is later. Own status writes and writes of others
// request no change.
func TestWaitUntilReconciledReturnsTheRevisionOfARequestedChange(t *testing.T) {
	everyWay(t, func(e *env) {
		returns := func(until, revision, low statedb.Revision, why string) {
			e.Helper()
			synctest.Wait()
			gotRevision, gotLow, err := e.loop.WaitUntilReconciled(e.Context(), until)
			require.NoError(e, err)
			require.Equal(e, [2]statedb.Revision{revision, low}, [2]statedb.Revision{gotRevision, gotLow}, why)
		}
		e.target.deciding(outcomes(nil))
		failed := e.put(failsForGood, 1)
		returns(failed, failed, failed, "it failed, and only the reconciler wrote")
		returns(0, failed, failed, "the last requested change")
		second := e.put(works, 2)
		returns(failed, second, failed, "another change was requested")
		returns(second+1, second+1, failed, "as requested: the status write")
		refreshing := e.write(func(wtxn statedb.WriteTxn) {
			_, _, _ = e.table.Insert(wtxn, e.get(2).Clone().SetStatus(reconciler.StatusRefreshing()))
		})
		returns(failed, refreshing, failed, "a refresh")
		gone := e.remove(2)
		returns(failed, gone, failed, "a deletion")
		unset := e.unset(3)
		returns(failed, gone, failed, "a row without a status")
		e.write(func(wtxn statedb.WriteTxn) { _, _, _ = e.table.Insert(wtxn, e.get(1).Clone()) })
		returns(failed, gone, failed, "a third party's write")
		returns(unset, unset, failed, "as requested: a row without a status")

		e.target.deciding(nil)
		e.put(works, 1)
		e.pass(time.Second)
		last := e.table.Revision(e.db.ReadTxn())
		returns(failed, last, 0, "everything is reconciled: the observed revision")
	})
}

// When the context ends, WaitUntilReconciled still returns the revision up to which all changes
// have been attempted.
func TestRevisionReturnedWhenTheContextEndsIsTheWatermark(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.deciding(outcomes(nil))
		failed := e.put(failsForGood, 1)
		synctest.Wait()
		attempted := e.table.Revision(e.db.ReadTxn())
		require.Greater(e, attempted, failed, "includes the status write")
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		revision, low, err := e.loop.WaitUntilReconciled(ctx, attempted+1000)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.Equal(e, attempted, revision)
		require.Equal(e, failed, low)
	})
}
