// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// servers are the outside systems of the operations: objects whose IDs end in the same digit use the
// same server.
type servers struct {
	mu   sync.Mutex
	down map[uint64]string
}

func serverOf(id uint64) uint64 { return id % 10 }

func (s *servers) set(server uint64, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down[server] = text
}

func (s *servers) do(c call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := s.down[serverOf(c.id)]; text != "" {
		return errors.New(text)
	}
	return nil
}

// of returns the IDs of n objects of a server.
func of(server, n uint64) []uint64 {
	var out []uint64
	for id := range n {
		out = append(out, 10*(id+1)+server)
	}
	return out
}

// byServer runs a test with servers and a breaker for each class of errors. The class is the text of
// the error before its colon; errors that begin with "none" have no class.
func byServer(t *testing.T, test func(e *env, s *servers), opts ...reconciler.Option) {
	opts = append(opts, reconciler.WithBreaker(reconciler.Breaker{
		Failures: 3, MaxInterval: 800 * time.Millisecond, ByClass: true,
	}))
	everyWayWith(t, classed(func(err error) string {
		class, _, _ := strings.Cut(err.Error(), ":")
		return strings.TrimPrefix(class, "none")
	}, nil), func(e *env) {
		s := &servers{down: map[uint64]string{}}
		e.target.deciding(s.do)
		test(e, s)
	}, opts...)
}

// to returns the calls that went to a server.
func to(server uint64, calls []call) []call {
	var out []call
	for _, c := range calls {
		if serverOf(c.id) == server {
			out = append(out, c)
		}
	}
	return out
}

// Each server has its own breaker. Objects that failed with the errors of the server that is down are
// held, and some of them probe. Operations on the other servers continue.
func TestBreakerOfAClassHoldsThoseThatFailedWithIt(t *testing.T) {
	byServer(t, func(e *env, s *servers) {
		s.set(1, "one: no route")
		start := time.Now()
		e.put(1, append(of(1, 50), of(2, 50)...)...)
		e.pass(50 * time.Millisecond)
		require.GreaterOrEqual(e, len(to(1, e.target.take())), 50, "all are tried once")
		for _, id := range of(2, 50) {
			require.Equal(e, reconciler.StatusKindDone, e.kind(id))
		}
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, "breaker open, 50 error(s)", message)
		require.EqualError(e, err, `breaker for "one" open since `+start.Format(time.RFC3339)+": one: no route")

		e.pass(time.Minute)
		calls := e.target.take()
		require.Empty(e, to(2, calls))
		probes := waves(start, to(1, calls))
		for i, w := range probes {
			require.LessOrEqual(e, w.calls, 2, "at %s", w.at)
			if i > 4 {
				require.Equal(e, 800*time.Millisecond, w.at-probes[i-1].at)
			}
		}

		// New objects are tried at once. They succeed if their server is up.
		revision := e.table.Revision(e.db.ReadTxn())
		e.put(1, 101, 102)
		synctest.Wait()
		require.Equal(e, reconciler.StatusKindError, e.kind(101))
		require.Equal(e, reconciler.StatusKindDone, e.kind(102))
		require.Equal(e, revision+4, e.table.Revision(e.db.ReadTxn()), "only the new objects are written")
		e.target.take()
		e.pass(10 * time.Second)
		require.Empty(e, to(2, e.target.take()))

		s.set(1, "")
		e.pass(900 * time.Millisecond)
		e.eachDone()
		level, _, _ = e.health.Now()
		require.Equal(e, cell.StatusOK, level)
	})
}

// The breaker of one server closes when that server is up. Objects that wait for another server, or
// only for their own backoff, continue to wait.
func TestBreakerOfAClassReleasesItsOwn(t *testing.T) {
	byServer(t, func(e *env, s *servers) {
		s.set(1, "one: no route")
		s.set(2, "two: no route")
		s.set(3, "none: bad")
		e.put(1, append(append(of(1, 20), of(2, 20)...), of(3, 2)...)...)
		e.pass(10 * time.Minute)
		_, message, err := e.health.Now()
		require.Contains(e, message, "breaker open")
		require.Equal(e, 2, strings.Count(err.Error(), "breaker for"))
		e.target.take()
		s.set(1, "")
		e.pass(900 * time.Millisecond)
		calls := e.target.take()
		require.GreaterOrEqual(e, len(to(1, calls)), 20)
		require.LessOrEqual(e, len(to(2, calls)), 4)
		require.LessOrEqual(e, len(to(3, calls)), 2)
		for _, id := range of(1, 20) {
			require.Equal(e, reconciler.StatusKindDone, e.kind(id))
		}
		_, _, err = e.health.Now()
		require.Equal(e, 1, strings.Count(err.Error(), "breaker for"))
		s.set(2, "")
		s.set(3, "")
		e.pass(2 * time.Hour)
		e.eachDone()
	}, reconciler.WithRetry(100*time.Millisecond, time.Hour))
}

// Errors without a class open no breaker, whatever their number.
func TestErrorsWithoutClassOpenNoBreaker(t *testing.T) {
	byServer(t, func(e *env, s *servers) {
		s.set(1, "none: bad")
		e.put(1, of(1, 100)...)
		e.pass(time.Minute)
		e.noBreaker()
		require.Greater(e, len(e.target.take()), 500)
		s.set(1, "")
		e.pass(time.Minute)
		e.eachDone()
	})
}

// An object whose latest error is of another class waits for the breaker of that class.
func TestObjectMovesToTheBreakerOfItsLastError(t *testing.T) {
	byServer(t, func(e *env, s *servers) {
		s.set(1, "one: no route")
		e.put(1, of(1, 20)...)
		e.pass(10 * time.Second)
		s.set(1, "other: refused")
		e.pass(10 * time.Second)
		_, _, err := e.health.Now()
		require.ErrorContains(e, err, `breaker for "other"`)
		e.pass(10 * time.Minute)
		_, _, err = e.health.Now()
		require.NotContains(e, err.Error(), `breaker for "one"`, "no object fails with it any more")
		s.set(1, "")
		e.pass(time.Second)
		e.eachDone()
	})
}

// A held object that changes is tried at once, like a new one. A held object that is deleted is deleted
// at once.
func TestHeldObjectIsTriedAtOnceWhenItChanges(t *testing.T) {
	byServer(t, func(e *env, s *servers) {
		s.set(1, "one: no route")
		e.put(1, of(1, 20)...)
		e.pass(time.Minute)
		e.target.take()
		start := time.Now()
		e.put(2, 11)
		e.remove(21)
		e.pass(time.Millisecond)
		calls := to(1, e.target.take())
		require.GreaterOrEqual(e, len(calls), 2)
		require.Contains(e, since(start, calls), time.Duration(0))
		e.pass(time.Minute)
		s.set(1, "")
		e.pass(time.Second)
		e.eachDone()
	})
}

// If ErrorClass panics, the error has no class, and the loop and the program continue.
func TestErrorClassThatPanicsYieldsNoClass(t *testing.T) {
	everyWayWith(t, classed(func(error) string { panic(panicText) }, nil), func(e *env) {
		e.target.failing("down")
		e.put(1, ids(1, 20)...)
		e.pass(time.Second)
		e.noBreaker()
		require.Contains(e, e.Logged(), "Config.ErrorClass panicked")
		e.status(1, reconciler.StatusKindError, "down")
		e.target.failing("")
		e.pass(time.Minute)
		e.eachDone()
	}, reconciler.WithBreaker(reconciler.Breaker{Failures: 3, ByClass: true}))
}

// Paused objects do not probe. Other objects behind the breaker do not wait for them, and a paused
// object stays paused when the breaker closes.
func TestPausedObjectsAreNoProbes(t *testing.T) {
	byServer(t, func(e *env, s *servers) {
		s.set(1, "one: no route")
		e.put(1, of(1, 20)...)
		e.pass(time.Minute)
		e.loop.PauseObjects(func(o *object) bool { return o.ID < 200 })
		e.pass(time.Minute)
		e.target.take()
		e.pass(8 * time.Second)
		for _, c := range e.target.take() {
			require.GreaterOrEqual(e, c.id, uint64(200), "paused")
		}
		s.set(1, "")
		e.pass(time.Second)
		require.Equal(e, reconciler.StatusKindDone, e.kind(201))
		require.Equal(e, reconciler.StatusKindError, e.kind(11))
		e.loop.Resume()
		e.pass(time.Second)
		e.eachDone()
	})
}

// ErrorClass can distinguish a deadline from other errors.
func TestTimeoutsCanHaveTheirOwnClass(t *testing.T) {
	class := func(err error) string {
		if errors.Is(err, context.DeadlineExceeded) {
			return "timeout"
		}
		return ""
	}
	everyWayWith(t, classed(class, nil), func(e *env) {
		e.target.overdue(asIs)
		e.put(1, ids(1, 20)...)
		e.pass(time.Minute)
		_, _, err := e.health.Now()
		require.ErrorContains(e, err, `breaker for "timeout" open`)
		e.target.prompt()
		e.pass(10 * time.Second)
		e.eachDone()
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }), reconciler.WithBreaker(reconciler.Breaker{Failures: 3, ByClass: true}))
}
