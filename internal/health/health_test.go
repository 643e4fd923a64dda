// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package health_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/health"
)

// told is a health that records reports as texts: the level, the message, and the lines of the error.
type told struct {
	cell.Health
	mu    sync.Mutex
	texts []string
}

func (h *told) OK(message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, message)
}

func (h *told) Degraded(message string, err error) {
	h.OK(fmt.Sprintf("degraded: %s\n%v", message, err))
}

// last returns the reports since its last call; empty if there are none.
func (h *told) last() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	texts := h.texts
	h.texts = nil
	return strings.Join(texts, "\n\n")
}

func newReporter(calls health.Calls) (*health.Reporter, *told) {
	r, h := health.New(calls), &told{}
	r.Start(h)
	return r, h
}

func lines(what string, n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("%s %d", what, i))
	}
	return lines
}

func TestConditionIsReported(t *testing.T) {
	for _, c := range []struct {
		now     health.Condition
		details health.Details
		want    string
	}{
		{health.Condition{}, health.Details{}, "OK, 0 object(s)"},
		{health.Condition{Objects: 7, Blocked: 2, Paused: 1}, health.Details{}, "OK, 7 object(s), 2 blocked, 1 paused"},
		{health.Condition{Objects: 7, PausedWhole: true}, health.Details{}, "OK, 7 object(s), paused"},
		{health.Condition{Objects: 7, Failing: 2, PausedWhole: true}, health.Details{Failures: []string{"a", "b"}},
			"degraded: 2 error(s), paused\na\nb"},
		{health.Condition{Failing: 1, PruneFailure: "prune: no"}, health.Details{Failures: []string{"a"}},
			"degraded: 2 error(s)\nprune: no\na"},
		{health.Condition{Failing: 1}, health.Details{Failures: []string{"a\x00b"}}, "degraded: 1 error(s)\na\\x00b"},
		{health.Condition{Stuck: 1}, health.Details{Stuck: []string{"update"}}, "degraded: 1 operation(s) stuck\nupdate"},
		{health.Condition{Stuck: 2, NoWorker: true}, health.Details{Stuck: []string{"update", "delete"}},
			"degraded: 2 operation(s) stuck, no worker is free\nupdate\ndelete"},
		{health.Condition{Breaker: "breaker open", Failing: 3, Stuck: 1, PruneFailure: "prune: no"},
			health.Details{Stuck: []string{"update"}, Failures: []string{"a"}},
			"degraded: breaker open, 4 error(s), 1 operation(s) stuck\n" +
				"breaker open\nupdate\nprune: no"},
	} {
		r, h := newReporter(health.Calls{})
		require.True(t, r.IsNews(c.now), "nothing was reported before")
		r.Tell(c.now, c.details)
		require.Equal(t, c.want, h.last())
		require.False(t, r.IsNews(c.now))
		require.Equal(t, c.now.Failing, r.Failing())
	}
}

func TestExamplesAreBounded(t *testing.T) {
	r, h := newReporter(health.Calls{})
	r.Tell(health.Condition{Failing: 12, PruneFailure: "prune: no"}, health.Details{Failures: lines("error", 10)})
	require.Equal(t, "degraded: 13 error(s)\nprune: no\n"+strings.Join(lines("error", 9), "\n")+"\n3 further errors omitted", h.last())
	r.Tell(health.Condition{Failing: 10}, health.Details{Failures: lines("error", 10)})
	require.Equal(t, "degraded: 10 error(s)\n"+strings.Join(lines("error", 10), "\n"), h.last())
	r.Tell(health.Condition{Stuck: 11}, health.Details{Stuck: lines("update", 11)})
	require.Equal(t, "degraded: 11 operation(s) stuck\n"+strings.Join(lines("update", 10), "\n")+"\n1 further operations omitted", h.last())
}

// While there is a problem, changes of the other counts are no news.
func TestOnlyReportedChangesAreNews(t *testing.T) {
	fine, wrong := health.Condition{Objects: 1}, health.Condition{Objects: 1, Failing: 1, Failures: 7}
	for _, c := range []struct {
		what   string
		was    health.Condition
		change func(c *health.Condition)
		news   bool
	}{
		{"objects", fine, func(c *health.Condition) { c.Objects++ }, true},
		{"blocked", fine, func(c *health.Condition) { c.Blocked++ }, true},
		{"objects, while wrong", wrong, func(c *health.Condition) { c.Objects++ }, false},
		{"blocked, while wrong", wrong, func(c *health.Condition) { c.Blocked++ }, false},
		{"paused, while wrong", wrong, func(c *health.Condition) { c.Paused++ }, false},
		{"the whole is paused, while wrong", wrong, func(c *health.Condition) { c.PausedWhole = true }, true},
		{"another error", wrong, func(c *health.Condition) { c.Failures++ }, true},
		{"nothing is wrong any more", wrong, func(c *health.Condition) { c.Failing = 0 }, true},
		{"other operations are stuck", wrong, func(c *health.Condition) { c.StuckChanges++ }, true},
		{"another breaker", wrong, func(c *health.Condition) { c.Breaker = "another" }, true},
	} {
		r, _ := newReporter(health.Calls{})
		r.Tell(c.was, health.Details{})
		c.change(&c.was)
		require.Equal(t, c.news, r.IsNews(c.was), c.what)
	}
}

func TestNothingIsReportedAfterTheEnd(t *testing.T) {
	r, h := newReporter(health.Calls{})
	r.TellEnd(errors.New("gone"))
	require.Equal(t, "degraded: The reconciler has ended\ngone", h.last())
	require.False(t, r.IsNews(health.Condition{Objects: 3}))
	r.Tell(health.Condition{Objects: 3}, health.Details{})
	require.Empty(t, h.last())
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched runs a test with a limit of a minute for calls. The current call is "update".
func watched(t *testing.T, test func(t *testing.T, r *health.Reporter, h *told, now func() time.Duration)) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() time.Duration { return time.Hour + time.Since(began) }
		r, h := newReporter(health.Calls{
			Now: now, Limit: func() time.Duration { return time.Minute }, Busy: func() string { return "update" },
		})
		defer r.Stop()
		r.Tell(health.Condition{Objects: 1}, health.Details{})
		h.last()
		test(t, r, h, now)
	})
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestLongCallIsReported(t *testing.T) {
	watched(t, func(t *testing.T, r *health.Reporter, h *told, now func() time.Duration) {
		r.Begin(now())
		sleep(time.Minute - 1)
		require.Empty(t, h.last())
		sleep(1)
		require.Equal(t, "degraded: 1 operation(s) stuck\nupdate", h.last())
		sleep(24 * time.Hour)
		require.Empty(t, h.last(), "reported once")
		r.End()
		require.Empty(t, h.last(), "the round reports that it has ended")
		require.True(t, r.IsNews(health.Condition{Objects: 1}))
		r.Tell(health.Condition{Objects: 1}, health.Details{})
		require.Equal(t, "OK, 1 object(s)", h.last())
	})
}

// The call is reported beside other problems, which are reported again when it has ended.
func TestNextCallEndsTheReportOfTheLast(t *testing.T) {
	watched(t, func(t *testing.T, r *health.Reporter, h *told, now func() time.Duration) {
		r.Tell(health.Condition{Failing: 1, Stuck: 1}, health.Details{Stuck: []string{"delete"}, Failures: []string{"down"}})
		require.Equal(t, "degraded: 1 error(s), 1 operation(s) stuck\ndelete\ndown", h.last())
		r.Begin(now())
		sleep(time.Minute)
		require.Equal(t, "degraded: 1 error(s), 2 operation(s) stuck\nupdate\ndelete\ndown", h.last())
		r.Begin(now())
		require.Equal(t, "degraded: 1 error(s), 1 operation(s) stuck\ndelete\ndown", h.last())
		sleep(time.Minute)
		require.Equal(t, "degraded: 1 error(s), 2 operation(s) stuck\nupdate\ndelete\ndown", h.last())
	})
}

func TestStoppedReporterReportsNothing(t *testing.T) {
	watched(t, func(t *testing.T, r *health.Reporter, h *told, now func() time.Duration) {
		r.Begin(now())
		sleep(time.Second)
		r.Stop()
		r.Begin(now())
		sleep(time.Hour)
		require.Empty(t, h.last())
	})
}
