// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// wave is a number of calls at the same moment.
type wave struct {
	at    time.Duration
	calls int
}

// waves groups calls by their times, counted from start.
func waves(start time.Time, calls []call) []wave {
	var out []wave
	for _, c := range calls {
		at := c.at.Sub(start)
		if len(out) == 0 || out[len(out)-1].at != at {
			out = append(out, wave{at: at})
		}
		out[len(out)-1].calls++
	}
	return out
}

// breaksAfter returns a breaker that opens after n failures. It lets an operation through 100 ms after it opened, and
// then at intervals of 200, 400 and 800 ms and a second.
func breaksAfter(n int) reconciler.Option {
	return reconciler.WithSettings(func(s *reconciler.Settings) { s.BreakerFailures = n })
}

// open inserts n objects, all of whose operations fail, and requires the breaker to be open.
func (e *env) open(n uint64) {
	e.target.failing("down")
	e.put(1, ids(1, n)...)
	synctest.Wait()
	_, message, _ := e.health.Now()
	require.Contains(e, message, "breaker open")
}

// While the target is down, only one operation after each pause runs. Nothing is written, only these cost passes, and
// health has one line with the error.
func TestOpenBreakerLetsProbesThroughOnly(t *testing.T) {
	const n = 100
	var p passes
	everyWayWith(t, p.count, func(e *env) {
		start := time.Now()
		e.open(n)
		// With workers, more than three operations were running when the third failed.
		require.GreaterOrEqual(e, len(e.target.take()), 3)
		e.pass(50 * time.Millisecond)
		require.Empty(e, e.target.take())
		e.pass(50 * time.Millisecond)
		counted := p.during(func() { e.pass(3 * time.Second) })
		require.Equal(e, []wave{
			{100 * time.Millisecond, 1}, {300 * time.Millisecond, 1}, {700 * time.Millisecond, 1},
			{1500 * time.Millisecond, 1}, {2500 * time.Millisecond, 1},
		}, waves(start, e.target.take()))
		require.LessOrEqual(e, counted, int64(3*5), "passes")

		// In this time the objects that were not tried yet are tried as probes.
		e.pass(2 * n * time.Second)
		e.target.take()
		revision, told, rounds := e.table.Revision(e.db.ReadTxn()), len(e.health.History()), e.rounds()
		e.pass(time.Minute)
		probes := len(e.target.take())
		require.InDelta(e, 60, probes, 2)
		require.Equal(e, revision, e.table.Revision(e.db.ReadTxn()), "nothing is written")
		require.Len(e, e.health.History(), told, "no new report of health")
		require.LessOrEqual(e, e.rounds()-rounds, uint64(2*probes), "rounds in the journal")
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, "breaker open, 100 error(s)", message)
		require.EqualError(e, err, "breaker open since "+start.Format(time.RFC3339)+": down")

		e.target.failing("")
		e.pass(1500 * time.Millisecond)
		e.eachDone()
		level, message, _ = e.health.Now()
		require.Equal(e, "OK OK, 100 object(s)", string(level)+" "+message)
	}, breaksAfter(3))
}

// rounds returns the number of rounds in which the loop ran something.
func (e *env) rounds() uint64 {
	journal := e.loop.Rounds()
	return journal[len(journal)-1].Sequence
}

// noBreaker requires that no breaker has ever been open.
func (e *env) noBreaker() {
	e.Helper()
	for _, told := range e.health.History() {
		require.NotContains(e, told, "breaker")
	}
}

// Terminal failures and blocked objects neither open nor close a breaker: they do not show whether the
// target is up.
func TestTerminalAndBlockedDoNotMatterToTheBreaker(t *testing.T) {
	for name, err := range map[string]error{
		"terminal": reconciler.TerminalError(errPlain), "blocked": reconciler.Blocked("door"),
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(e *env) {
				e.target.deciding(func(call) error { return err })
				e.put(1, ids(1, 100)...)
				e.pass(time.Hour)
				e.remove(ids(11, 100)...)
				e.pass(time.Second)
				e.noBreaker()

				e.open(10)
				e.target.deciding(func(call) error { return err })
				e.pass(time.Second)
				_, message, _ := e.health.Now()
				require.Contains(e, message, "breaker open")
				e.target.failing("")
				e.put(2, ids(1, 100)...)
				e.pass(time.Minute)
				e.eachDone()
			}, breaksAfter(3), reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
		})
	}
}

// When the breaker closes, every retry is due at once, however long its backoff still was.
func TestClosedBreakerReleasesLongBackoffs(t *testing.T) {
	everyWay(t, func(e *env) {
		e.open(50)
		e.pass(10 * time.Minute)
		e.target.failing("")
		start := time.Now()
		e.put(1, 51)
		e.pass(100 * time.Millisecond)
		e.eachDone()
		first := e.target.take()
		for len(first) > 0 && first[0].at.Before(start) {
			first = first[1:]
		}
		require.Len(e, first, 51)
	}, breaksAfter(3), reconciler.WithRetry(time.Hour, 100*time.Hour))
}

// Objects that are new, changed, deleted, released or due while the breaker is open wait. When it
// closes, the latest version of each is applied.
func TestChangesWaitWhileTheBreakerIsOpen(t *testing.T) {
	everyWay(t, func(e *env) {
		door := make(chan struct{})
		e.put(1, 20, 21)
		synctest.Wait()
		e.target.deciding(func(c call) error {
			if c.id == 30 {
				return reconciler.Blocked("door", door)
			}
			return nil
		})
		e.put(1, 30)
		synctest.Wait()
		e.open(10)
		e.pass(10 * time.Second)
		e.target.take()

		start := time.Now()
		e.put(2, ids(5, 40)...)
		e.remove(1, 2, 20)
		e.put(3, 21)
		close(door)
		e.pass(8 * time.Second)
		for _, w := range waves(start, e.target.take()) {
			require.Equal(e, 1, w.calls, "at %s", w.at)
		}
		require.Len(e, e.target.holds(), 2)
		e.target.failing("")
		e.pass(time.Second)
		e.pass(200 * time.Millisecond)
		e.eachDone()
	}, breaksAfter(3), reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
}

// A probe that is given up after MaxRetries still counts as a failure: the next one does not come earlier.
func TestGivenUpProbesAreFailures(t *testing.T) {
	everyWay(t, func(e *env) {
		start := time.Now()
		e.open(500)
		e.target.take()
		e.pass(3 * time.Second)
		require.Equal(e, []wave{
			{100 * time.Millisecond, 1}, {300 * time.Millisecond, 1}, {700 * time.Millisecond, 1},
			{1500 * time.Millisecond, 1}, {2500 * time.Millisecond, 1},
		}, waves(start, e.target.take()))
	}, breaksAfter(3), reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 1 }))
}

// If the target does not answer at all, the breaker opens after the configured number of failures and
// the operations that were running by then. Operations that were queued behind them do not run.
func TestBreakerOpensSoonWhenTheTargetHangs(t *testing.T) {
	singly(t, func(e *env) {
		e.target.takes(10 * time.Microsecond)
		e.put(1, ids(1, 2000)...)
		e.pass(time.Second)
		e.target.take()
		e.target.overdue(asIs)
		e.put(2, ids(1, 2000)...)
		e.pass(30 * time.Second)
		require.LessOrEqual(e, len(e.target.take()), 3+4+20)
		_, message, _ := e.health.Now()
		require.Contains(e, message, "breaker open")
		e.target.prompt()
		e.pass(5 * time.Second)
		e.eachDone()
	}, breaksAfter(3), reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }))
}

// If all objects that could probe are paused, the loop makes no passes for probes.
func TestPausedProbesCostNoPasses(t *testing.T) {
	var p passes
	everyWayWith(t, p.count, func(e *env) {
		e.open(100)
		e.pass(time.Minute)
		e.loop.PauseObjects(func(o *object) bool { return o.ID <= 100 })
		e.pass(10 * time.Minute)
		e.target.take()
		require.LessOrEqual(e, p.during(func() { e.pass(24 * time.Hour) }), int64(2))
		require.Empty(e, e.target.take())
		e.target.failing("")
		e.put(1, 101)
		synctest.Wait()
		require.Equal(e, reconciler.StatusKindDone, e.kind(101), "a probe")
		e.loop.Resume()
		e.pass(time.Second)
		e.eachDone()
	}, breaksAfter(3))
}

// Reconfigure can turn the breaker off while it is open: then no object waits for it any more.
func TestBreakerThatIsTurnedOffHoldsNothingBack(t *testing.T) {
	everyWay(t, func(e *env) {
		e.open(10)
		e.target.failing("")
		require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.BreakerFailures = 0 }))
		e.pass(time.Second) // with workers, the loop gathers outcomes for a moment
		e.eachDone()
	}, breaksAfter(3), reconciler.WithRetry(time.Hour, time.Hour))
}
