// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// notReady requires that Ready does not return for a minute, and that its error has a text.
func (e *env) notReady(text string) {
	ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
	defer cancel()
	_, err := e.loop.Ready(ctx)
	require.ErrorIs(e, err, context.DeadlineExceeded)
	require.ErrorContains(e, err, text)
}

// ready requires that Ready returns within a second, and returns the number of objects that are not applied.
func (e *env) ready() int {
	ctx, cancel := context.WithTimeout(e.Context(), time.Second)
	defer cancel()
	rest, err := e.loop.Ready(ctx)
	require.NoError(e, err)
	return len(rest.Keys)
}

func TestReadyComesAfterSourceRowsAndFirstLook(t *testing.T) {
	for name, look := range map[string]string{"prune": "prune", "resync": "list"} {
		t.Run(name, func(t *testing.T) {
			var initialized func(statedb.WriteTxn)
			inBubble(t, func(e *env) {
				e.target.deciding(func(c call) error {
					if c.id == 1 || c.op == look {
						return errors.New("no")
					}
					return nil
				})
				e.put(1, 1, 2)
				e.notReady("not initialised, it waits for load")
				e.target.lasting(func(c call) time.Duration {
					if c.op == "update" && c.id == 3 {
						return 2 * time.Minute
					}
					return 0
				})
				e.write(func(wtxn statedb.WriteTxn) { initialized(wtxn) })
				e.put(1, 3)
				if look == "prune" {
					// A prune waits for operations that run.
					e.notReady("attempted up to")
				} else {
					e.notReady("context deadline exceeded")
				}
				e.pass(2 * time.Minute)
				e.notReady("the first " + name + " has failed: ")
				e.target.deciding(func(c call) error {
					if c.id == 1 {
						return errors.New("no")
					}
					return nil
				})
				e.pass(10 * time.Minute)
				require.Equal(e, 1, e.ready(), "the object that fails holds nothing up")
				e.target.lasting(func(call) time.Duration { return time.Hour })
				e.put(1, 4)
				synctest.Wait()
				require.Zero(e, e.ready(), "nor does what is written later; in an operation the loop cannot list objects")
				e.pass(time.Hour)
			}, func(e *env, cfg *reconciler.Config[*object]) {
				e.write(func(wtxn statedb.WriteTxn) { initialized = e.table.RegisterInitializer(wtxn, "load") })
				if look == "list" {
					cfg.Lister = &lister{target: e.target}
				}
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxBackoff = time.Minute }))
		})
	}
}

func TestLoopThatDoesNotPruneIsReadyWithoutAPrune(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		require.Zero(e, e.ready())
	}, nil, reconciler.WithoutPruning())
}

func TestLoopThatIsPausedIsNotReady(t *testing.T) {
	var initialized func(statedb.WriteTxn)
	inBubble(t, func(e *env) {
		e.loop.Pause()
		e.write(func(wtxn statedb.WriteTxn) { initialized(wtxn) })
		e.notReady("the reconciler is paused")
		e.loop.Resume()
		synctest.Wait()
		require.Zero(e, e.ready())
	}, func(e *env, cfg *reconciler.Config[*object]) {
		e.write(func(wtxn statedb.WriteTxn) { initialized = e.table.RegisterInitializer(wtxn, "load") })
	})
}

func TestReadyEndsWithTheLoop(t *testing.T) {
	inBubble(t, func(e *env) {
		over := make(chan error, 1)
		go func() {
			_, err := e.loop.Ready(e.Context())
			over <- err
		}()
		synctest.Wait()
		e.stop()
		e.stop = func() {}
		require.ErrorIs(e, <-over, inspect.ErrStopped)
	}, func(e *env, cfg *reconciler.Config[*object]) {
		e.write(func(wtxn statedb.WriteTxn) { e.table.RegisterInitializer(wtxn, "load") })
	})
}
