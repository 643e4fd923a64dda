// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestJournalRecordsTheHistoryOfAnObject(t *testing.T) {
	inBubble(t, func(e *env) {
		began := time.Now()
		e.target.before = func(context.Context, call) { time.Sleep(time.Millisecond) }
		e.target.failing("no")
		e.put(1, 1)
		e.pass(150 * time.Millisecond)
		e.target.failing("")
		e.pass(time.Second)
		e.remove(1)
		e.pass(time.Second)

		journal := e.loop.Rounds()
		key := "1"
		require.Equal(e, []inspect.Round{
			{Sequence: 1, Reason: inspect.ReasonStart, Started: began, Prune: &inspect.Prune{}},
			{
				Sequence: 2, Reason: inspect.ReasonChange, Started: began, Took: time.Millisecond,
				Changes: 1, Written: 1,
				Operations: []inspect.Operation{{
					Op: "update", Key: key, Revision: 1, Attempt: 1, Result: "failed", Error: "no", Cause: inspect.CauseChange, Took: time.Millisecond,
				}},
			},
			{
				Sequence: 3, Reason: inspect.ReasonDue, Started: began.Add(101 * time.Millisecond), Took: time.Millisecond,
				Waited: 1,
				Operations: []inspect.Operation{{
					Op: "update", Key: key, Revision: 2, Attempt: 2, Result: "failed", Error: "no", Cause: inspect.CauseRetry, Took: time.Millisecond,
				}},
			},
			{
				Sequence: 4, Reason: inspect.ReasonDue, Started: began.Add(302 * time.Millisecond), Took: time.Millisecond,
				Waited: 1, Written: 1,
				Operations: []inspect.Operation{{
					Op: "update", Key: key, Revision: 2, Attempt: 3, Result: "done", Cause: inspect.CauseRetry, Took: time.Millisecond,
				}},
			},
			{
				Sequence: 5, Reason: inspect.ReasonChange, Started: began.Add(1150 * time.Millisecond), Took: time.Millisecond,
				Changes: 1,
				Operations: []inspect.Operation{{
					Op: "delete", Key: key, Revision: 4, Attempt: 1, Result: "done", Cause: inspect.CauseChange, Took: time.Millisecond,
				}},
			},
		}, journal)
	}, nil)
}

func TestJournalCountsConflictsAndLostOutcomes(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.before = func(_ context.Context, c call) { time.Sleep(time.Second) }
		e.put(1, 1, 2)
		e.pass(500 * time.Millisecond)
		e.write(func(wtxn statedb.WriteTxn) {
			o := e.get(1).Clone()
			o.Other = reconciler.StatusDone()
			_, _, err := e.table.Insert(wtxn, o)
			require.NoError(e, err)
		})
		e.put(2, 2)
		e.pass(10 * time.Second)
		rounds := e.loop.Rounds()[1:]
		require.Equal(e, 1, rounds[0].Conflicts)
		require.Equal(e, 1, rounds[0].Written)
		e.eachDone()
		lost := 0
		for _, r := range rounds {
			lost += r.Lost
		}
		require.Zero(e, lost, "object 2 was changed before its turn")
	}, nil)
}

// recorder implements only the four methods of Metrics.
type recorder struct{ got []string }

func (r *recorder) ReconciliationDuration(m cell.FullModuleID, name, op string, d time.Duration) {
	r.got = append(r.got, fmt.Sprintf("%s/%s %s %s", m, name, op, d))
}

func (r *recorder) ReconciliationErrors(m cell.FullModuleID, name string, fresh, current int) {
	r.got = append(r.got, fmt.Sprintf("%s/%s errors %d %d", m, name, fresh, current))
}

func (r *recorder) PruneError(m cell.FullModuleID, name string, err error) {
	r.got = append(r.got, fmt.Sprintf("%s/%s prune %v", m, name, err))
}

func (r *recorder) PruneDuration(m cell.FullModuleID, name string, d time.Duration) {
	r.got = append(r.got, fmt.Sprintf("%s/%s prune %s", m, name, d))
}

func TestMetricsReportEachOperationAndRound(t *testing.T) {
	for kind, want := range map[string][]string{
		"single": {
			"a.b/x update 4ms", "a.b/x update 4ms", "a.b/x errors 2 2",
			"a.b/x update 4ms", "a.b/x update 4ms", "a.b/x errors 0 0",
			"a.b/x delete 4ms", "a.b/x update 4ms", "a.b/x errors 0 0",
		},
		"batches": {
			"a.b/x update 8ms", "a.b/x errors 2 2", "a.b/x update 8ms", "a.b/x errors 0 0",
			"a.b/x delete 4ms", "a.b/x update 4ms", "a.b/x errors 0 0",
		},
	} {
		t.Run(kind, func(t *testing.T) {
			var r recorder
			inBubble(t, func(e *env) {
				require.Equal(e, []string{"a.b/x errors 0 0", "a.b/x prune 0s", "a.b/x prune <nil>"}, r.got)
				r.got = nil
				e.target.before = func(context.Context, call) { time.Sleep(4 * time.Millisecond) }
				e.target.failing("no")
				e.put(1, 1, 2)
				e.pass(50 * time.Millisecond)
				e.target.failing("")
				e.pass(time.Minute)
				e.write(func(wtxn statedb.WriteTxn) {
					_, _, _ = e.table.Delete(wtxn, &object{ID: 1})
					_, _, _ = e.table.Insert(wtxn, &object{ID: 2, Status: reconciler.StatusPending()})
				})
				e.pass(time.Minute)
				require.Equal(e, want, r.got)
			}, func(e *env, cfg *reconciler.Config[*object]) {
				cfg.ModuleID = cell.FullModuleID{"a", "b"}
				if kind == "batches" {
					cfg.BatchOperations = batchTarget{e.target}
				}
			}, reconciler.WithMetrics(&r), reconciler.WithName("x"))
		})
	}
}

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
