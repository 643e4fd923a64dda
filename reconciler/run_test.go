// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

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

// Refresh of all objects returns an error after the stop, since the refresh will not come.
func TestRefreshOfAllAfterTheStopIsAnError(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.stop()
		_, err := e.loop.Refresh(e.Context())
		require.ErrorIs(e, err, inspect.ErrStopped)
	}, nil)
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
