// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect_test

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

var night = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func TestExplanationTextStartsWithTheState(t *testing.T) {
	e := inspect.Explanation{
		Reconciler: "agent/routes", Key: "10.0.0.0/24", At: night,
		State: inspect.StateRetry, Why: "it failed, and waits for its backoff",
		Since: night.Add(-12 * time.Second), Wanted: night.Add(-time.Minute),
		Found: true, Status: "Error", Revision: 17,
		Attempts: 3, LastAttempt: night.Add(-12 * time.Second), Next: night.Add(4 * time.Second),
		Error: "connection refused", BlockedOn: "device eth0",
		Lane: "backlog", Ahead: 1000, Group: "eth0", Holder: "10.0.1.0/24",
		Notes: []string{"the table is not initialised"},
		Operations: []inspect.Operation{
			{Round: 4, Started: night.Add(-30 * time.Second), Op: "update", Cause: inspect.CauseChange,
				Revision: 16, Attempt: 1, Result: "done", Lost: true, Conflict: true, Took: 1250 * time.Microsecond},
			{Round: 5, Started: night.Add(-12 * time.Second), Op: "update", Cause: inspect.CauseRetry,
				Revision: 17, Attempt: 3, Result: "failed", Error: "connection refused", Took: 2 * time.Second},
		},
	}
	require.Equal(t, `retry: it failed, and waits for its backoff
  object         10.0.0.0/24 of agent/routes
  row            Error, at revision 17
  since          2026-11-21T02:59:48.000Z (12 s ago)
  wanted         2026-11-21T02:59:00.000Z (1 min ago)
  attempts       3 failed in a row
  last attempt   2026-11-21T02:59:48.000Z (12 s ago)
  next attempt   2026-11-21T03:00:04.000Z (in 4 s)
  error          connection refused
  blocked on     device eth0
  group          eth0
  held up by     10.0.1.0/24
  lane           backlog
  ahead of it    1000 or more
  note           the table is not initialised
Time                       Ago        Round   Operation   Cause    Revision   Attempt   Result               Took      Error
2026-11-21T02:59:30.000Z   30 s ago   4       update      change   16         1         done, lost, merged   1.25 ms
2026-11-21T02:59:48.000Z   12 s ago   5       update      retry    17         3         failed               2 s       connection refused
`, e.String())
}

func TestExplanationTextShowsThatTheRowIsMissing(t *testing.T) {
	e := inspect.Explanation{Reconciler: "routes", Key: "7", At: night, State: inspect.StateAbsent, Why: "the table has no such object"}
	require.Equal(t, "absent: the table has no such object\n  object   7 of routes\n  row      none\n", e.String())
	e.Deleted = true
	require.Contains(t, e.String(), "  row      deleted\n")
}

func TestSnapshotTextStartsWithTheProblems(t *testing.T) {
	s := inspect.Snapshot{
		ID: inspect.ID{Module: "agent", Table: "routes"}, At: night, Condition: "busy", Busy: "update of 7 for 3 s",
		Started: night.Add(-2 * time.Hour), Objects: 120, Waiting: []string{"k8s", "bgp"},
		States: []metrics.StateCount{{State: "retry", Count: 3}, {State: "blocked", Count: 0}},
		Lanes:  []metrics.StateCount{{State: "fresh", Count: 2}},
		Unseen: 40, Failing: 3, Blocked: 1,
		Revision: 200, Observed: 180, Attempted: 170, LowWatermark: 12,
		OldestUnapplied: night.Add(-12 * time.Second), NextPrune: night.Add(time.Hour),
		Errors:  []inspect.ErrorClass{{Class: "refused #", Count: 9, Last: night, Key: "7", Example: "refused 12"}},
		Breaker: "the breaker is open", Stuck: []string{"update of 8"}, PruneFailure: "no memory",
		Settings: []inspect.SettingText{{Name: "Concurrency", Value: "4"}, {Name: "RoundLimiter"}},
	}
	require.Equal(t, `agent: busy: 3 failing, 1 blocked, breaker open, 1 operation(s) stuck, 40 change(s) unseen, oldest unapplied change 12 s ago, prune fails, table not initialised
  busy              update of 7 for 3 s
  at                2026-11-21T03:00:00.000Z
  started           2026-11-21T01:00:00.000Z (2 h ago)
  table             routes, 120 rows, not initialised: waits for k8s, bgp
  failing           3
  blocked           1
  unseen            about 40 changes
  unapplied since   2026-11-21T02:59:48.000Z (12 s ago)
  revision          200, observed up to 180, attempted up to 170, not applied from 12
  breaker           the breaker is open
  stuck             update of 8
  prune failure     no memory
  next prune        2026-11-21T04:00:00.000Z (in 1 h)
State   Objects
retry   3
Lane    Objects
fresh   2
Error       Count   Last                             Key   Example
refused #   9       2026-11-21T03:00:00.000Z (now)   7     refused 12
Setting        Value
Concurrency    4
RoundLimiter
`, s.String())
}

func TestSummaryReportsThatAllRowsAreApplied(t *testing.T) {
	s := inspect.Snapshot{Condition: "running", Started: night, At: night, Objects: 7, Initialized: true}
	require.Equal(t, "running: all 7 rows applied", s.Summary())
	s.Started, s.Condition = time.Time{}, "not started"
	require.Equal(t, "not started", s.Summary())
}

// A terminal executes some control characters. Names and errors come from outside, and may have them.
func TestTextsEscapeControlCharacters(t *testing.T) {
	const evil = "a\x1b[2J\r\n\u009b1m\u202eb"
	var explanation inspect.Explanation
	var snapshot inspect.Snapshot
	var plan inspect.Plan
	require.Greater(t, poison(reflect.ValueOf(&plan).Elem(), evil), 5, "texts of a plan")
	require.Greater(t, poison(reflect.ValueOf(&explanation).Elem(), evil), 10, "texts of an explanation")
	require.Greater(t, poison(reflect.ValueOf(&snapshot).Elem(), evil), 10, "texts of a snapshot")
	for _, rendered := range []string{explanation.String(), snapshot.String(), snapshot.Summary(), plan.String()} {
		require.Contains(t, rendered, `\x1b[2J`)
		for _, r := range strings.ReplaceAll(rendered, "\n", "") {
			require.True(t, unicode.IsPrint(r), "%q in %q", r, rendered)
		}
	}
	lines := func(s string) int { return strings.Count(s, "\n") }
	require.Equal(t, 1, lines(inspect.Explanation{Why: evil}.String())-2, "a text stays on one line")
}

// poison sets all strings in a value to s, with one element in each list, and returns their number.
func poison(v reflect.Value, s string) (texts int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
		return 1
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return 0
		}
		for i := range v.NumField() {
			texts += poison(v.Field(i), s)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		texts += poison(v.Index(0), s)
	case reflect.Int, reflect.Int64, reflect.Uint64:
		if v.CanInt() {
			v.SetInt(1)
		} else {
			v.SetUint(1)
		}
	case reflect.Bool:
		v.SetBool(true)
	}
	return texts
}
