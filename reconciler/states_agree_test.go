// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

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

// DESIGN, section 3 (Readers): stateOf is the one place that names the state of an object, for Explain, lists and
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

// The same for the row of an object whose deletion is paused, if no worker is free to read it.
func TestWaitNamesTheStateOfARowThatIsBackAsExplainDoes(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 8)
		e.pass(time.Second)
		e.target.deciding(func(c call) error {
			if c.id == 8 {
				return errors.New("no")
			}
			return nil
		})
		e.remove(8)
		e.pass(time.Millisecond)
		many := ids(100, 700)
		stuck := e.target.stick(many...)
		defer func() {
			for _, id := range many {
				stuck.free(id)
			}
		}()
		e.put(1, many...)
		e.pass(time.Millisecond)
		e.loop.PauseObjects(only(8))
		e.put(2, 8)
		e.pass(time.Second)
		x := e.loop.Explain(e.Context(), "8")
		require.False(e, x.Deleted, "the table has the row: %s", x)
		require.Equal(e, x.State, e.unappliedState(8), "%s", x)
	}, nil, reconciler.WithSettings(twoWorkers), reconciler.WithoutPruning())
}

// ObjectLine: "Next is the time of the next attempt". While everything is paused there is none; behind a breaker it
// is the next probe, as Explain says.
func TestListAndExplainAgreeAboutTheNextAttempt(t *testing.T) {
	for _, held := range []string{"pause", "breaker"} {
		t.Run(held, func(t *testing.T) {
			opts := []reconciler.Option{reconciler.WithoutPruning()}
			if held == "breaker" {
				opts = append(opts, reconciler.WithBreaker(reconciler.Breaker{Failures: 3, Probes: 1, MinInterval: time.Hour, MaxInterval: time.Hour}))
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
