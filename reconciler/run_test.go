// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// scopedHealth loses its state when another scope of the same name is made, as hive's health does.
type scopedHealth struct{ *health }

func (h scopedHealth) NewScope(name string) cell.Health {
	if name == "reconcile" {
		h.Scope(name).Stopped("lost")
	}
	return h.Scope(name)
}

// A second call of Run returns an error and does not change the running loop.
func TestSecondRunLeavesTheFirstAlone(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		level, message, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level)
		require.ErrorContains(e, e.loop.Run(e.Context()), "has been run already")
		e.pass(time.Second)
		after, now, _ := e.health.Now()
		require.Equal(e, level, after)
		require.Equal(e, message, now)
		e.put(2, 1)
		e.pass(time.Second)
		e.eachDone()
	}, func(e *env, cfg *reconciler.Config[*object]) { cfg.Health = scopedHealth{e.Health} })
}

// Explain names a limit that keeps an object waiting. It does not mention the limit for an object
// that is done.
func TestExplainNamesALimitThatIsUsedUp(t *testing.T) {
	for name, option := range map[string]reconciler.Option{
		"rounds":     reconciler.WithRoundLimits(10, rate.NewLimiter(rate.Every(time.Hour), 1)),
		"operations": reconciler.WithSettings(func(s *reconciler.Settings) { s.OperationLimiter = rate.NewLimiter(rate.Every(time.Hour), 1) }),
	} {
		inBubble(t, func(e *env) {
			e.put(1, 1)
			e.pass(time.Second)
			e.put(1, 2)
			e.pass(time.Second)
			wants := "the limit on " + name + " is used up: "
			for id, notes := range map[string]bool{"1": e.kind(1) != reconciler.StatusKindDone, "2": true} {
				found := false
				for _, note := range e.loop.Explain(e.Context(), id).Notes {
					found = found || len(note) > len(wants) && note[:len(wants)] == wants
				}
				require.Equal(e, notes, found, "%s: object %s", name, id)
			}
			synctest.Wait()
		}, nil, option)
	}
}

// Readers that find the loop running also find the zero of its clock.
func TestStartIsSeenWhole(t *testing.T) {
	inBubble(t, func(e *env) {
		for range 20 {
			loop, err := reconciler.New(e.config(reconciler.WithName("second")))
			require.NoError(e, err)
			ctx, cancel := context.WithCancel(e.Context())
			ended := make(chan error, 1)
			go func() { ended <- loop.Run(ctx) }()
			for loop.Snapshot(e.Context()).Started.IsZero() && len(ended) == 0 {
				runtime.Gosched()
			}
			synctest.Wait()
			cancel()
			require.NoError(e, <-ended)
		}
	}, nil)
}

// Before the start of a loop its readers do not panic.
func TestReadersWorkBeforeTheStart(t *testing.T) {
	e := newEnv(t)
	l, err := reconciler.New(e.config())
	require.NoError(t, err)
	e.put(1, 1)
	s := l.Snapshot(t.Context())
	require.Equal(t, inspect.ConditionNotStarted, s.Condition)
	require.Equal(t, 1, s.Objects)
	require.Equal(t, inspect.StateUnknown, l.Explain(t.Context(), "1").State)
	page, err := l.Objects(t.Context(), inspect.ObjectQuery{})
	require.NoError(t, err)
	require.Equal(t, inspect.StateUnknown, page.Objects[0].State)
	_, err = l.Retry(t.Context())
	require.ErrorIs(t, err, inspect.ErrNotStarted)
}

// An idle loop sets no timer. If it had one, a bubble in which all other goroutines wait would not
// report a deadlock: virtual time would advance to its end, where the timer is always due.
func TestIdleLoopIsIdleAtTheEndOfTime(t *testing.T) {
	for _, workers := range []int{1, 4} {
		hung := time.AfterFunc(20*time.Second, func() { panic("the loop is not idle") })
		inBubble(t, func(e *env) {
			e.put(1, 1)
			e.pass(math.MaxInt64)
			e.put(2, 1, 2)
			e.pass(0)
			e.eachDone()
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithoutPruning())
		hung.Stop()
	}
}

// The running operation may end while Explain collects its answer. The answer is consistent
// nevertheless.
func TestExplainOfAnOperationThatEndsIsConsistent(t *testing.T) {
	for n := range 30 {
		var calls atomic.Int64
		calls.Store(math.MinInt64)
		ended := func() {}
		key := func(o *object) index.KeySet {
			if calls.Add(1) == int64(n) {
				ended()
			}
			return index.NewKeySet(keyOf(o))
		}
		inBubble(t, func(e *env) {
			gate := make(chan struct{})
			e.target.mu.Lock()
			e.target.before = func(context.Context, call) { <-gate }
			e.target.mu.Unlock()
			e.put(1, 1)
			e.pass(time.Second)
			began := time.Now().Add(-time.Second)
			release := sync.OnceFunc(func() { close(gate) })
			ended = func() {
				release()
				for e.kind(1) != reconciler.StatusKindDone {
					runtime.Gosched()
				}
			}
			calls.Store(-1)
			x := e.loop.Explain(context.Background(), "1")
			calls.Store(math.MinInt64)
			release()
			if x.State == inspect.StateInFlight {
				require.Equal(t, "update is running, and the reconciler waits for it", x.Why)
				require.Equal(t, began.UnixNano(), x.Since.UnixNano())
			}
		}, func(e *env, cfg *reconciler.Config[*object]) {
			hooked := idIndex
			hooked.FromObject = key
			table, err := statedb.NewTable(e.db, "hooked", hooked)
			require.NoError(t, err)
			e.table, cfg.Table = table, table
		}, reconciler.WithoutPruning())
	}
}

// Readers may ask the loop from any goroutine while it works, with each kind of operations.
func TestReadersDoNotDisturbTheLoop(t *testing.T) {
	for _, kind := range operationKinds {
		for _, n := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, n), func(t *testing.T) {
				inBubble(t, readWhileItWorks, kind.change, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = n, 5*time.Millisecond }), breaksAfter(100))
			})
		}
	}
}

func readWhileItWorks(e *env) {
	e.target.takes(time.Millisecond)
	e.target.deciding(func(c call) error {
		if (c.id+uint64(c.at.UnixMilli()))%3 == 0 {
			return errors.New("no")
		}
		return nil
	})
	var readers sync.WaitGroup
	done := make(chan struct{})
	for i := range 4 {
		readers.Go(func() {
			for n := i; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(3 * time.Millisecond):
				}
				readAll(e, fmt.Sprint(n%50))
			}
		})
	}
	for value := range 20 {
		e.put(value, ids(1, 50)...)
		e.remove(uint64(1 + value))
		time.Sleep(10 * time.Millisecond)
	}
	close(done)
	readers.Wait()
	e.target.failing("")
	e.pass(10 * time.Second)
	e.eachDone()
}

// readAll calls every method that reads the state of the loop.
func readAll(e *env, key string) {
	ctx := e.Context()
	require.NotEmpty(e, e.loop.Snapshot(ctx).Condition)
	require.NotEmpty(e, e.loop.Explain(ctx, key).State)
	_, _ = e.loop.Objects(ctx, inspect.ObjectQuery{Status: "Error"})
	_, _ = e.loop.Objects(ctx, inspect.ObjectQuery{Status: "Deleted"})
	e.loop.Operations(inspect.OperationQuery{Key: key})
	e.loop.Rounds()
	e.loop.Figures()
	e.loop.Keys("1", 5)
}

// The owner of a table may keep it locked for as long as it likes. A lock is no wait that virtual time knows,
// so this test runs in real time; it waits for events, and its limits are for a failure only.
func TestLoopBesideALockedTableGoesOnAndStops(t *testing.T) {
	h := harness.New(t, idIndex, nil)
	e := &env{T: t, Env: h, db: h.DB, table: h.Table, target: newTarget(), stop: func() {}}
	e.hook(func(context.Context, call) { time.Sleep(100 * time.Microsecond) })
	cfg := e.config()
	beside(e, &cfg)
	loop, err := reconciler.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)

	const rows = 200
	for id := range uint64(rows) {
		e.writeRows(1, id)
	}
	go func() { ended <- loop.Run(ctx) }()
	wait, stopWait := context.WithTimeout(ctx, time.Minute)
	defer stopWait()
	_, err = loop.WaitFor(wait, reconciler.Attempted, &object{ID: 0})
	require.NoError(t, err)
	// Run needs the lock once, to begin.
	locked := e.db.WriteTxn(e.table)
	defer locked.Abort()
	_, err = loop.WaitAll(wait, reconciler.Applied)
	require.NoError(t, err, "the loop does not go on while the table is locked")
	require.Len(t, e.target.holds(), rows)

	cancel()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the loop does not stop while the table is locked")
	}
}
