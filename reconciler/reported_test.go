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

// told are metrics that keep what they were told, in order, each with the kind of the status
// that row 1 had then.
type told struct {
	mu     sync.Mutex
	events []string
	// each is called with every event; it may be nil.
	each func()
	kind func() string
}

func (m *told) add(event string) {
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

func (m *told) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	events := m.events
	m.events = nil
	return events
}

func (m *told) ReconciliationDuration(_ cell.FullModuleID, _, operation string, _ time.Duration) {
	m.add(operation)
}

func (m *told) ReconciliationErrors(_ cell.FullModuleID, _ string, failed, current int) {
	m.add(fmt.Sprintf("errors %d, %d", failed, current))
}

func (m *told) PruneError(cell.FullModuleID, string, error)            { m.add("prune error") }
func (m *told) PruneDuration(cell.FullModuleID, string, time.Duration) { m.add("prune") }

// A program that sees the status of the first object finds the figures there: they are told
// once, as zeros, before anything is done.
func TestFiguresAreThereBeforeTheFirstOperation(t *testing.T) {
	for _, kind := range operationKinds {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, workers), func(t *testing.T) {
				synctestRun(t, func(e *env) {
					m := &told{}
					var before []string
					e.target.before = func(_ context.Context, c call) {
						if before == nil {
							before = append([]string{}, m.take()...)
						}
					}
					e.put(1, 1)
					cfg := e.config(reconciler.WithMetrics(m), reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
					operate(kind.name)(e, &cfg)
					e.start(cfg)
					e.pass(time.Second)
					require.Equal(e, []string{"errors 0, 0"}, before, "what was told before the first operation")
					e.stop()
				})
			})
		}
	}
}

// A duration is told before the status is there, the number of errors when it is.
func TestDurationsComeBeforeTheStatusAndCountsAfterIt(t *testing.T) {
	for _, kind := range operationKinds {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, workers), func(t *testing.T) {
				m := &told{}
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

// Metrics may write the table, or wait for somebody who does: whoever calls them does not
// hold its lock. Real time, since who waits for a lock stops the time of a bubble.
func TestMetricsAreNeverCalledWhileTheTableIsLocked(t *testing.T) {
	for _, kind := range operationKinds {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, workers), func(t *testing.T) {
				e := newEnv(t)
				m := &told{each: func() {
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

// What WaitUntilReconciled returns is no more than was asked for or wanted while something is
// owed: own status writes and those of others ask for nothing.
func TestReportedRevisionIsThatOfAWantedChange(t *testing.T) {
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
		returns(failed, failed, failed, "it failed, and nobody wrote but the reconciler")
		returns(0, failed, failed, "the last wanted change")
		second := e.put(works, 2)
		returns(failed, second, failed, "another change was wanted")
		returns(second+1, second+1, failed, "as asked for: the status write")
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
		returns(unset, unset, failed, "as asked for: a row without a status")

		e.target.deciding(nil)
		e.put(works, 1)
		e.pass(time.Second)
		last := e.table.Revision(e.db.ReadTxn())
		returns(failed, last, 0, "nothing is owed: as far as was looked")
	})
}

// Whoever is told that the context has ended is told how far all has been attempted.
func TestRevisionReturnedWhenTheContextEndsIsTheWatermark(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.deciding(outcomes(nil))
		failed := e.put(failsForGood, 1)
		synctest.Wait()
		attempted := e.table.Revision(e.db.ReadTxn())
		require.Greater(e, attempted, failed, "with the status")
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		revision, low, err := e.loop.WaitUntilReconciled(ctx, attempted+1000)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.Equal(e, attempted, revision)
		require.Equal(e, failed, low)
	})
}
