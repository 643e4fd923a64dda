// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
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

// What the target has from an earlier run is gone, and what it has lost since the row was applied is back. A deletion that
// fails, or is paused, holds nothing up.
func TestReadyComesAfterWhatTheFirstResyncHasFound(t *testing.T) {
	for found, op := range map[string]string{"orphans": "delete", "missing": "update"} {
		for _, workers := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, workers %d", found, workers), func(t *testing.T) {
				var initialized func(statedb.WriteTxn)
				registry := &inspect.Registry{}
				inBubble(t, func(e *env) {
					e.put(7, 1, 2, 3)
					synctest.Wait()
					want := e.target.holds()
					state := map[uint64]int{1: 7}
					if found == "orphans" {
						state = map[uint64]int{1: 7, 2: 7, 3: 7, 4: 7, 5: 7, 6: 7}
						want[5] = 7
						require.NoError(e, e.loop.PauseOnly("6"))
						want[6] = 7
					}
					(&world{target: e.target}).as(state)
					e.target.deciding(func(c call) error {
						if c.id == 5 {
							return errors.New("no")
						}
						return nil
					})
					e.target.lasting(func(c call) time.Duration {
						if c.op == op {
							return 2 * time.Minute
						}
						return 0
					})
					e.write(func(wtxn statedb.WriteTxn) { initialized(wtxn) })
					for range max(1, 3/workers) {
						e.notReady("what the first resync has found is not deleted or repaired yet")
						if workers > 1 && found == "missing" {
							force, err := registry.InForce(e.Context(), "objects", "2")
							require.NoError(e, err)
							require.False(e, force.Yes, "its repair runs: %+v", force)
						}
					}
					e.pass(20 * time.Minute)
					require.Zero(e, e.ready())
					require.Equal(e, want, e.target.holds())
				}, func(e *env, cfg *reconciler.Config[*object]) {
					e.write(func(wtxn statedb.WriteTxn) { initialized = e.table.RegisterInitializer(wtxn, "load") })
					cfg.Lister = &lister{target: e.target}
				}, reconciler.WithRegistry(registry), reconciler.WithSettings(func(s *reconciler.Settings) {
					s.Concurrency, s.MinBackoff, s.MaxBackoff, s.ResyncInterval = workers, time.Hour, time.Hour, 0
				}))
			})
		}
	}
}

// Its repair waits for the end of a pause.
func TestRowThatAResyncFindsMissingIsNotInForce(t *testing.T) {
	var registry *inspect.Registry
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows, change: func(_ *env, _ *world, cfg *reconciler.Config[*object]) {
		registry = &inspect.Registry{}
		cfg.Options = append(cfg.Options, reconciler.WithRegistry(registry))
	}}, func(e *env, w *world, _ func()) {
		inForce := func(key string) bool {
			force, err := registry.InForce(e.Context(), "objects", key)
			require.NoError(e, err)
			return force.Yes
		}
		e.pass(time.Second)
		require.True(e, inForce("1"))
		require.NoError(e, e.loop.PauseOnly("1"))
		w.drift(1, -1)
		e.loop.Resync()
		e.pass(time.Minute)
		require.False(e, inForce("1"))
		require.True(e, inForce("2"))
		e.loop.Resume()
		e.pass(time.Minute)
		require.True(e, inForce("1"))
		require.Equal(e, rows, w.holds())
	})
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

// readiness is a part of a program that is ready when its channel is closed.
type readiness chan struct{}

func (r readiness) Ready(ctx context.Context) (inspect.Unapplied, error) {
	select {
	case <-r:
		return inspect.Unapplied{More: 7}, nil
	case <-ctx.Done():
		return inspect.Unapplied{}, fmt.Errorf("the program's own: %w", context.Cause(ctx))
	}
}

// A source fills a table, a derivation makes another one of it, and a loop applies that: each is waited for, at once.
func TestReadyOfSourceDerivationAndLoop(t *testing.T) {
	var parts statedb.RWTable[*part]
	var filled func(statedb.WriteTxn)
	inBubble(t, func(e *env) {
		own := make(readiness)
		all := []reconciler.Readiness{e.loop, own, reconciler.Filled(e.db, parts.ToTable())}
		ready := func() ([]inspect.Unapplied, error) {
			ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
			defer cancel()
			return reconciler.Ready(ctx, all...)
		}
		_, err := ready()
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.ErrorContains(e, err, `reconciler "objects": not ready: the table is not initialised, it waits for parts`)
		require.ErrorContains(e, err, "the program's own: ")
		require.ErrorContains(e, err, `table "parts": not ready: the table is not initialised, it waits for list`)
		close(own)
		e.target.failing("down")
		harness.Insert(e, e.db, parts, &part{ID: 1}, &part{ID: 2})
		wtxn := e.db.WriteTxn(parts)
		filled(wtxn)
		wtxn.Commit()
		// The first prune fails as well.
		_, err = ready()
		require.EqualError(e, err, `reconciler "objects": not ready: the first prune has failed: prune: down: context deadline exceeded`)
		e.target.deciding(func(c call) error {
			if c.op == "update" {
				return errors.New("down")
			}
			return nil
		})
		rest, err := ready()
		require.NoError(e, err)
		require.Len(e, rest, 3)
		require.Len(e, rest[0].Keys, 2, "what fails holds nothing up")
		require.Equal(e, 7, rest[1].More)
		require.Empty(e, rest[2])
		harness.Insert(e, e.db, parts, &part{ID: 3})
		_, err = ready()
		require.NoError(e, err, "nor does what comes later")
		synctest.Wait()
		require.Equal(e, 3, e.table.NumObjects(e.db.ReadTxn()))
	}, func(e *env, cfg *reconciler.Config[*object]) {
		var err error
		parts, err = statedb.NewTable(e.db, "parts", partIndex)
		require.NoError(e, err)
		wtxn := e.db.WriteTxn(parts)
		filled = parts.RegisterInitializer(wtxn, "list")
		wtxn.Commit()
		derived, err := derive.Each(derive.Config[*object]{DB: e.db}, parts.ToTable(), e.table, func(p *part) ([]*object, error) {
			return []*object{{ID: p.ID, Status: reconciler.StatusPending(), Other: reconciler.StatusDone()}}, nil
		})
		require.NoError(e, err)
		e.Cleanup(derived.Close)
		before, stop := e.stop, reconcilertest.Go(e, derived.Run)
		e.stop = func() { before(); stop() }
	})
}

func TestReadyGivesUpWhenOnePartCannotBe(t *testing.T) {
	inBubble(t, func(e *env) {
		rest, err := reconciler.Ready(e.Context())
		require.NoError(e, err)
		require.Empty(e, rest)
		_, err = reconciler.Ready(e.Context(), make(readiness), nil)
		require.EqualError(e, err, "part 2 of 2 to wait for is nil")
		over := make(chan error, 1)
		go func() {
			_, err := reconciler.Ready(e.Context(), e.loop, make(readiness))
			over <- err
		}()
		e.pass(time.Minute)
		require.Empty(e, over)
		e.stop()
		e.stop = func() {}
		err = <-over
		require.ErrorIs(e, err, inspect.ErrStopped)
		require.NotContains(e, err.Error(), "the program's own")
	}, func(e *env, cfg *reconciler.Config[*object]) {
		e.write(func(wtxn statedb.WriteTxn) { e.table.RegisterInitializer(wtxn, "load") })
	})
}

// endsItself is a part that cannot be ready.
type endsItself struct{}

func (endsItself) Ready(context.Context) (inspect.Unapplied, error) {
	return inspect.Unapplied{}, fmt.Errorf("the connection has ended: %w", context.Canceled)
}

func TestReadySaysWhichPartHasGivenUp(t *testing.T) {
	_, err := reconciler.Ready(t.Context(), make(readiness), endsItself{})
	require.EqualError(t, err, "the connection has ended: context canceled")
	_, err = reconciler.Ready(t.Context(), (*reconciler.Loop[*object])(nil), make(readiness))
	require.EqualError(t, err, "part 1 of 2 to wait for is nil")
}
