// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// The log line of a failure identifies its object. Failures of the same class are logged at a bounded
// rate, with their number.
func TestRepeatedFailuresAreLoggedAtABoundedRate(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			return fmt.Errorf("object %d: %w", c.id, fs.ErrPermission)
		})
		e.put(1, ids(1, 100)...)
		e.pass(20 * time.Second)
		require.Equal(e, 1, strings.Count(e.Logged(), "operation failed"), e.Logged())
		require.Contains(e, e.Logged(),
			`level=WARN msg="operation failed" reconciler=objects operation=update key=1 revision=1 attempt=1 error="object 1: permission denied" repeated=0`)
		attempts := len(e.target.take())
		e.pass(40 * time.Second)
		lines := strings.Split(strings.TrimSpace(e.Logged()), "\n")
		require.Len(e, lines, 2)
		require.Contains(e, lines[1], fmt.Sprintf("attempt=10 error=\"object 1: permission denied\" repeated=%d", attempts+100-1))
	}, nil, reconciler.WithRetry(100*time.Millisecond, 100*time.Second))
}

// A prune that fails is retried after the backoff of objects, and logged as rarely as they are. A sweep above its
// budget is no failure.
func TestPrunesThatFailAreLoggedAtABoundedRate(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		s.strays(1, 2)
		s.failing("no route")
		e.sweep()
		e.pass(29 * time.Second)
		require.Equal(e, 1, strings.Count(e.Logged(), "prune failed"), e.Logged())
		s.failing("")
		e.pass(time.Minute + time.Second)
		awaits := strings.Count(e.Logged(), "sweep awaits approval")
		require.NotZero(e, awaits, e.Logged())
		require.LessOrEqual(e, awaits, 3)
		require.Equal(e, 1, strings.Count(e.Logged(), "prune failed"), e.Logged())
		_, message, _ := e.health.Now()
		require.Equal(e, "a sweep awaits approval", message)
	}, reconciler.WithSweepBudget(1, 0))
}

// A listing that fails and a sweep that awaits approval do not hide each other in the log or in health, however
// they take turns.
func TestPruneFailureOfEachKindIsLogged(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		s.strays(1, 2)
		for range 20 {
			s.failing("")
			e.sweep()
			_, message, _ := e.health.Now()
			require.Equal(e, "a sweep awaits approval", message)
			e.pass(25 * time.Second)
			s.failing("no route")
			e.sweep()
			_, message, _ = e.health.Now()
			require.Equal(e, "1 error(s)", message)
			e.pass(5 * time.Second)
		}
		for _, message := range []string{"prune failed", "sweep awaits approval"} {
			n := strings.Count(e.Logged(), message)
			require.True(e, n >= 10 && n <= 21, "%s: %d", message, n)
		}
	}, reconciler.WithSweepBudget(1, 0))
}

// However many classes of failures there are, the log gets ten lines at once and then at most one a
// second, and the memory for classes is bounded.
func TestManyKindsOfFailuresAreBounded(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			return errors.New(strings.Repeat(string(rune('a'+c.id%20)), 1+int(c.id)/20))
		})
		e.put(1, ids(1, 200)...)
		e.pass(10 * time.Millisecond)
		require.Equal(e, 10, strings.Count(e.Logged(), "operation failed"))
		s := e.loop.Snapshot(e.Context())
		require.Len(e, s.Errors, 32)
		for _, c := range s.Errors {
			require.LessOrEqual(e, len(c.Class), 123)
			require.Equal(e, uint64(1), c.Count)
		}
	}, nil, reconciler.WithRetry(time.Hour, time.Hour))
}

// Failures are classified by their texts without the parts that differ between objects, or by
// Config.ErrorClass.
func TestErrorsAreCountedByKind(t *testing.T) {
	fail := func(c call) error {
		if c.id%2 == 0 {
			return fmt.Errorf("route %d: %w", c.id, fs.ErrNotExist)
		}
		return fmt.Errorf("no room for %d of 10", c.id)
	}
	inBubble(t, func(e *env) {
		e.target.deciding(fail)
		e.put(1, ids(1, 9)...)
		e.pass(10 * time.Millisecond)
		got := map[string]uint64{}
		for _, c := range e.loop.Snapshot(e.Context()).Errors {
			got[c.Class] = c.Count
			require.NotEmpty(e, c.Key)
			require.Contains(e, c.Example, c.Key)
		}
		require.Equal(e, map[string]uint64{"route #: file does not exist": 4, "no room for # of #": 5}, got)
	}, nil, reconciler.WithRetry(time.Hour, time.Hour))
	inBubble(t, func(e *env) {
		e.target.deciding(fail)
		e.put(1, ids(1, 9)...)
		e.pass(10 * time.Millisecond)
		errs := e.loop.Snapshot(e.Context()).Errors
		require.Len(e, errs, 1)
		require.Equal(e, "mine", errs[0].Class)
		require.Equal(e, uint64(9), errs[0].Count)
	}, classed(func(error) string { return "mine" }, nil), reconciler.WithRetry(time.Hour, time.Hour))
}
