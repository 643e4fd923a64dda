// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package health_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/health"
)

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

func TestQuickCallsAreNeverReported(t *testing.T) {
	watched(t, func(t *testing.T, r *health.Reporter, h *told, now func() time.Duration) {
		for range 100 {
			r.Begin(now())
			sleep(59 * time.Second)
		}
		r.End()
		sleep(time.Hour)
		require.Empty(t, h.last())
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
