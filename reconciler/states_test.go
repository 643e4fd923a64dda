// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// requireState requires that every view of an unapplied object shows the same state.
func (e *env) requireState(state inspect.State, id uint64) {
	e.Helper()
	key := strconv.FormatUint(id, 10)
	x := e.loop.Explain(e.Context(), key)
	require.Equal(e, state, x.State, "Explain: %s", x.Why)
	page, err := e.loop.Objects(e.Context(), inspect.ObjectQuery{})
	require.NoError(e, err)
	for _, line := range page.Objects {
		if line.Key == x.Key {
			require.Equal(e, state, line.State, "Objects")
		}
	}
	ctx, cancel := context.WithTimeout(e.Context(), time.Millisecond)
	defer cancel()
	rest, err := e.loop.WaitKey(ctx, key, reconciler.Applied)
	require.Error(e, err)
	require.Equal(e, state, rest.Keys[0].State, "WaitKey")
	rest, _ = e.loop.WaitAll(ctx, reconciler.Applied)
	for _, u := range rest.Keys {
		if bytes.Equal(u.Key, index.Uint64(id)) {
			require.Equal(e, state, u.State, "WaitAll")
		}
	}
}

// An object has one state in every view, even while a pause or a breaker holds up all objects.
func TestEveryViewShowsTheSameState(t *testing.T) {
	inBubble(t, func(e *env) {
		e.open(5)
		e.requireState(inspect.StateTripped, 1)
		e.put(1, 9)
		synctest.Wait()
		e.requireState(inspect.StateTripped, 9)
		e.loop.Pause()
		synctest.Wait()
		e.requireState(inspect.StatePaused, 1)
		e.requireState(inspect.StatePaused, 9)
		e.loop.Resume()
		synctest.Wait()
		e.requireState(inspect.StateTripped, 9)
	}, nil, breaksAfter(3), reconciler.WithoutPruning())
	inBubble(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		synctest.Wait()
		e.requireState(inspect.StateRetry, 1)
		e.loop.Pause()
		synctest.Wait()
		e.requireState(inspect.StatePaused, 1)
	}, nil, reconciler.WithoutPruning())
	// An operation well past its deadline is stuck, alone and in a batch.
	for _, batched := range []bool{false, true} {
		inBubble(t, func(e *env) {
			release := make(chan struct{})
			defer close(release)
			e.target.deciding(func(c call) error {
				if c.id == 1 {
					<-release
				}
				return nil
			})
			e.put(1, 1)
			e.pass(500 * time.Millisecond)
			e.requireState(inspect.StateInFlight, 1)
			e.pass(3 * time.Second)
			e.requireState(inspect.StateStuck, 1)
		}, func(e *env, cfg *reconciler.Config[*object]) {
			if batched {
				cfg.BatchOperations = batchTarget{e.target}
			}
		}, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) {
			s.Concurrency, s.Timeout = 2, time.Second
		}))
	}
}

func twoWorkers(s *reconciler.Settings) { s.Concurrency = 2 }

// unappliedState returns the state that WaitFor gives when its context has ended at once.
func (e *env) unappliedState(id uint64) inspect.State {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), time.Nanosecond)
	defer cancel()
	rest, err := e.loop.WaitFor(ctx, reconciler.Applied, &object{ID: id})
	require.ErrorIs(e, err, context.DeadlineExceeded)
	require.Len(e, rest.Keys, 1)
	return rest.Keys[0].State
}

// DESIGN, section 2 (Readers): stateOf is the one place that names the state of an object, for Explain, lists and
// waits. Beside the table an object that is applied and waits for the mark is "done" for two of them.
func TestWaitNamesTheStateOfAnAppliedObjectAsExplainDoes(t *testing.T) {
	for name, outcome := range map[string]error{"done": nil, "requeue": reconciler.Requeue(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.deciding(func(c call) error { return outcome })
				stuck := e.target.stick(1)
				defer stuck.free(1)
				e.writeRows(1, 1, 2)
				e.pass(time.Millisecond)
				want := e.loop.Explain(e.Context(), "2").State
				require.Equal(e, want, e.objects(inspect.ObjectQuery{}).Objects[1].State, "list")
				require.Equal(e, want, e.unappliedState(2), "wait")
			}, beside, reconciler.WithSettings(twoWorkers), reconciler.WithoutPruning())
		})
	}
}

// ObjectLine: "Next is the time of the next attempt". While everything is paused there is none; behind a breaker it
// is the next probe, as Explain says.
func TestListAndExplainAgreeAboutTheNextAttempt(t *testing.T) {
	for _, held := range []string{"pause", "breaker"} {
		t.Run(held, func(t *testing.T) {
			opts := []reconciler.Option{reconciler.WithoutPruning()}
			if held == "breaker" {
				opts = append(opts, breaksAfter(3))
			}
			inBubble(t, func(e *env) {
				e.target.failing("down")
				e.put(1, 1, 2, 3)
				e.pass(10 * time.Millisecond)
				if held == "pause" {
					e.loop.Pause()
				}
				e.pass(10 * time.Millisecond)
				x := e.loop.Explain(e.Context(), "1")
				line := e.objects(inspect.ObjectQuery{}).Objects[0]
				require.Equal(e, x.State, line.State)
				require.Equal(e, x.Next, line.Next, "%s", x)
			}, nil, opts...)
		})
	}
}

// While the loop is in an operation, readers show the rows and name the operation. They guess no state.
func TestBusyLoopShowsTheRowsAndItsOperation(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Millisecond)
		e.target.lasting(func(call) time.Duration { return time.Hour })
		e.put(1, 2)
		synctest.Wait()
		e.put(1, 3)
		states := map[string]inspect.State{"1": inspect.StateDone, "2": inspect.StateInFlight, "3": inspect.StateUnknown}
		for key, state := range states {
			x := e.loop.Explain(e.Context(), key)
			require.Equal(e, state, x.State, "%s", x)
			require.Len(e, x.Notes, 1, "%s", x)
			require.Contains(e, x.Notes[0], "the reconciler is busy: update of 2, running since 2000-01-01T00:00:00")
		}
		unknown := e.loop.Explain(e.Context(), "3")
		require.Equal(e, "Pending", unknown.Status)
		require.Contains(e, unknown.Why, "the reconciler is busy: update of 2, running since 2000-01-01T00:00:00")
		require.Contains(e, e.loop.Explain(e.Context(), "4").Why, "; the table has no such object, but its deletion may be still to come")
		for _, line := range e.objects(inspect.ObjectQuery{}).Objects {
			require.Equal(e, states[line.Key], line.State, "object %s", line.Key)
		}
		_, err := e.loop.Objects(e.Context(), inspect.ObjectQuery{Status: "Deleted"})
		require.ErrorAs(e, err, new(*inspect.BusyError))
		require.Contains(e, e.loop.Snapshot(e.Context()).Busy, "update of 2, running since 2000-01-01T00:00:00")
	}, nil, reconciler.WithoutPruning())
}

// A call that the loop does not take before its context ends names the operation that the loop is in.
func TestCallsOfABusyLoopNameItsOperation(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Millisecond)
		e.target.lasting(func(call) time.Duration { return time.Hour })
		e.put(1, 2)
		e.remove(1)
		synctest.Wait()
		calls := map[string]func(context.Context) error{
			"Retry":      func(ctx context.Context) error { _, err := e.loop.Retry(ctx, "2"); return err },
			"Retry all":  func(ctx context.Context) error { _, err := e.loop.Retry(ctx); return err },
			"Refresh":    func(ctx context.Context) error { _, err := e.loop.Refresh(ctx, "2"); return err },
			"Reapply":    func(ctx context.Context) error { _, err := e.loop.Reapply(ctx, objects(2)...); return err },
			"a deletion": func(ctx context.Context) error { _, err := e.loop.WaitKey(ctx, "1", reconciler.Applied); return err },
		}
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(e.Context(), time.Second)
			err := call(ctx)
			cancel()
			require.ErrorIs(e, err, context.DeadlineExceeded, name)
			require.ErrorAs(e, err, new(*inspect.BusyError), name)
			require.ErrorContains(e, err, `reconciler "objects": `, name)
			require.Equal(e, 1, strings.Count(err.Error(), "the reconciler is busy: update of 2, running since 2000-01-01T00:00:00"), "%s: %s", name, err)
		}
	}, nil, reconciler.WithoutPruning())
}
