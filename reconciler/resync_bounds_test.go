// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// writeOn writes rows again and again, with new values, until end is called.
func (e *env) writeOn(every time.Duration, ids ...uint64) (end func()) {
	ctx, cancel := context.WithCancel(e.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for value := 2; ctx.Err() == nil; value++ {
			e.put(value, ids...)
			time.Sleep(every)
		}
	}()
	return func() { cancel(); <-ended }
}

// The rows are written faster than their operations, so there is never a time when each row that the table has was attempted.
func TestRowsWrittenAllTheTimeKeepNoResyncBack(t *testing.T) {
	hot := ids(2, 9)
	resyncing(t, begin{target: map[uint64]int{1: 1, 99: 1}, rows: map[uint64]int{1: 1}, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		e.put(1, hot...)
		w.deciding(func(call) error { time.Sleep(5 * time.Millisecond); return nil })
	}}, func(e *env, w *world, _ func()) {
		end := e.writeOn(2*time.Millisecond, hot...)
		defer end()
		time.Sleep(2 * time.Second)
		require.NotNil(e, e.loop.Snapshot(e.Context()).Resync, "the comparison with the first listing goes on")
		require.NotContains(e, w.holds(), uint64(99), "the orphan")
		w.target.mu.Lock()
		delete(w.target.state, 1)
		w.target.mu.Unlock()
		e.loop.Resync()
		time.Sleep(2 * time.Second)
		require.Contains(e, w.holds(), uint64(1), "the row that was lost")
		end()
		e.pass(time.Second)
	})
}

// An operation runs through a pause, and ends during the listing that follows: that may show what was before.
func TestListingDuringAnOperationIsNotAdopted(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		var slow atomic.Bool
		resyncing(t, begin{target: map[uint64]int{1: 1}, late: true, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
			slow.Store(!deletes)
			value := 2
			if deletes {
				value = 1
			}
			e.put(value, 1)
			w.first(func(context.Context, call) {
				if slow.CompareAndSwap(true, false) {
					time.Sleep(5 * time.Second)
				}
			})
		}}, func(e *env, w *world, done func()) {
			e.pass(100 * time.Millisecond)
			if deletes {
				slow.Store(true)
				e.remove(1)
			}
			time.Sleep(time.Second)
			w.set(nil, func(context.Context) { time.Sleep(10 * time.Second) })
			e.loop.Pause()
			time.Sleep(100 * time.Millisecond)
			e.loop.Resume()
			e.pass(20 * time.Second)
			w.set(nil, nil)
			e.put(1, 1)
			_, err := e.loop.WaitFor(e.Context(), reconciler.Applied, &object{ID: 1})
			require.NoError(e, err)
			require.Equal(e, map[uint64]int{1: 1}, w.holds())
			done()
			e.pass(time.Minute)
		}, reconciler.WithSettings(func(s *reconciler.Settings) { s.ListTimeout = time.Hour }))
	}
}

// A server carries a call out after the client has given it up.
func TestRetryIsNotAdopted(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{1: 1}, late: true, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		e.put(2, 1)
		w.failing("deadline exceeded")
	}}, func(e *env, w *world, done func()) {
		e.pass(100 * time.Millisecond)
		e.loop.Pause()
		e.pass(100 * time.Millisecond)
		e.put(1, 1)
		w.failing("")
		e.loop.Resume()
		e.pass(time.Minute)
		require.Contains(e, w.changes(), "update(1)")
		done()
		e.pass(time.Minute)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.ListTimeout = time.Hour }))
}

// What the first listing has not may never have been applied by anybody.
func TestFirstStartIsNoDrift(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{1: 9}, rows: map[uint64]int{1: 1, 2: 1}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		f := e.loop.Figures()
		require.Zero(e, f.Missing+f.Different, "%d missing, %d different", f.Missing, f.Different)
		w.as(map[uint64]int{1: 9})
		e.loop.Resync()
		e.pass(time.Minute)
		f = e.loop.Figures()
		require.EqualValues(e, 1, f.Missing)
		require.EqualValues(e, 1, f.Different)
	})
}

func TestExplainNamesTheListingThatARowWaitsFor(t *testing.T) {
	rows := map[uint64]int{1: 1}
	explained := func(e *env) string { return e.loop.Explain(e.Context(), "1").String() }
	resyncing(t, begin{rows: rows, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		w.set(errors.New("connection refused"), nil)
	}}, func(e *env, w *world, _ func()) {
		e.pass(10 * time.Second)
		require.Contains(e, explained(e), "connection refused")
		w.set(nil, func(ctx context.Context) { <-ctx.Done() })
		e.pass(10 * time.Second)
		require.Contains(e, explained(e), "operations wait for a listing of the target, which runs since 2000-01-01T00:00")
		e.pass(20 * time.Second)
		require.NotContains(e, explained(e), "operations wait for a listing", "ListTimeout is over")
	})
}
