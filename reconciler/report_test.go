// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
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

		journal := e.loop.Journal()
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

// A report of many failures is expensive and wakes all readers of health, so it is made once for
// the same problem.
func TestHealthIsReportedOnceForTheSameProblem(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		synctest.Wait()
		reports := e.health.History()
		require.Equal(e, "Degraded 1 error(s)", reports[len(reports)-1])

		e.target.failing("")
		e.put(1, 2, 3)
		synctest.Wait()
		e.remove(3)
		synctest.Wait()
		require.Equal(e, reports, e.health.History())

		e.target.failing("never")
		e.put(1, 4)
		synctest.Wait()
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, "2 error(s)", message)
		require.ErrorContains(e, err, "never")

		e.target.failing("")
		e.remove(1)
		e.remove(4)
		synctest.Wait()
		level, message, _ = e.health.Now()
		require.Equal(e, cell.StatusOK, level)
		require.Equal(e, "OK, 1 object(s)", message)
	}, nil, reconciler.WithRetry(time.Hour, time.Hour))
}

func TestJournalKeepsTheLatest(t *testing.T) {
	inBubble(t, func(e *env) {
		for id := range uint64(20) {
			e.put(1, id)
			synctest.Wait()
		}
		e.put(1, ids(100, 102)...)
		synctest.Wait()
		journal := e.loop.Journal()
		require.Len(e, journal, 5)
		require.EqualValues(e, 22, journal[4].Sequence)
		require.Len(e, journal[4].Operations, 3)
		require.Len(e, journal[3].Operations, 1)
		require.Empty(e, journal[2].Operations, "operations are forgotten before their round")
	}, nil, reconciler.WithJournal(5, 4))
	inBubble(t, func(e *env) {
		e.put(1, 1)
		synctest.Wait()
		require.Empty(e, e.loop.Journal())
		e.eachDone()
	}, nil, reconciler.WithJournal(0, 0))
}

func TestJournalCountsConflictsAndLostOutcomes(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.before = func(_ context.Context, c call) { time.Sleep(time.Second) }
		e.put(1, 1, 2)
		e.pass(500 * time.Millisecond)
		e.write(func(wtxn writeTxn) {
			o := e.get(1).Clone()
			o.Other = reconciler.StatusDone()
			_, _, err := e.table.Insert(wtxn, o)
			require.NoError(e, err)
		})
		e.put(2, 2)
		e.pass(10 * time.Second)
		rounds := e.loop.Journal()[1:]
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

func TestHealthGivesTenExamplesAndCountsTheRest(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			if c.id > 25 {
				return nil
			}
			return fmt.Errorf("object %d is bad", c.id)
		})
		e.put(1, ids(1, 30)...)
		synctest.Wait()
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, "25 error(s)", message)
		lines := strings.Split(err.Error(), "\n")
		require.Len(e, lines, 11)
		require.Equal(e, "object 1 is bad", lines[0])
		require.Equal(e, "15 further errors omitted", lines[10])
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
				e.write(func(wtxn writeTxn) {
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
