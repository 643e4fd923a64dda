// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

const sharedField = "two reconcilers share one status field"

// sharer is a loop that runs beside others, with its own target and health.
type sharer struct {
	*health
	loop *reconciler.Loop[*object]
	stop func()
}

// beside runs a loop with a name in a registry. The registry and change may be nil.
func (e *env) beside(name string, registry *inspect.Registry, change func(*reconciler.Config[*object])) *sharer {
	s := &sharer{health: &health{}}
	cfg := e.config(reconciler.WithName(name), reconciler.WithRegistry(registry))
	cfg.Operations, cfg.Health = newTarget(), scopeless{s.health}
	if change != nil {
		change(&cfg)
	}
	var err error
	s.loop, err = reconciler.New(cfg)
	require.NoError(e, err)
	ctx, cancel := context.WithCancel(e.Context())
	var ended sync.WaitGroup
	ended.Go(func() { s.loop.Run(ctx) })
	s.stop = func() { cancel(); ended.Wait() }
	e.Cleanup(s.stop)
	return s
}

// scopeless is a health whose scopes all report to it.
type scopeless struct{ *health }

func (h scopeless) NewScope(name string) cell.Health { return h }

// shares requires that health names the other reconcilers; without any, that it is OK.
func (s *sharer) shares(e *env, with ...string) {
	e.Helper()
	synctest.Wait()
	level, message, err := s.Now()
	if len(with) == 0 {
		require.Equal(e, cell.StatusOK, level, message)
		require.NotContains(e, s.loop.Snapshot(e.Context()).Summary(), sharedField)
		return
	}
	require.Equal(e, cell.StatusDegraded, level, message)
	require.Equal(e, sharedField, message)
	want := ""
	for i, name := range with {
		if i > 0 {
			want += "\n"
		}
		want += fmt.Sprintf("%s: this one and %q", sharedField, name)
	}
	require.EqualError(e, err, want)
	require.Contains(e, s.loop.Snapshot(e.Context()).Summary(), sharedField)
	require.Contains(e, s.loop.Snapshot(e.Context()).String(), "shared with ")
	require.Equal(e, with, s.loop.Snapshot(e.Context()).Sharers)
	require.Contains(e, s.loop.Explain(e.Context(), "1").Notes, fmt.Sprintf("%s: this one and %q", sharedField, with[0]))
}

// bubble runs a test with a table and without a loop.
func bubble(t *testing.T, test func(e *env, registry *inspect.Registry)) {
	synctest.Test(t, func(t *testing.T) { test(newEnv(t), &inspect.Registry{}) })
}

// Both reconcilers report the shared field, whichever began first, and whenever the rows were
// inserted.
func TestTwoReconcilersOfOneStatusFieldAreBothDegraded(t *testing.T) {
	for _, rows := range []string{"before both", "between", "after both"} {
		t.Run("rows "+rows, func(t *testing.T) {
			bubble(t, func(e *env, registry *inspect.Registry) {
				put := func(when string) {
					if when == rows {
						e.put(1, 1, 2)
					}
					synctest.Wait()
				}
				put("before both")
				a := e.beside("a", registry, nil)
				put("between")
				a.shares(e)
				b := e.beside("b\nc", registry, nil)
				put("after both")
				a.shares(e, "b\nc")
				b.shares(e, "a")

				// The report ends when one of them stops.
				a.stop()
				b.shares(e)
				c := e.beside("c", registry, nil)
				c.shares(e, "b\nc")
				b.shares(e, "c")
			})
		})
	}
}

func TestThreeReconcilersOfOneStatusFieldNameEachOther(t *testing.T) {
	bubble(t, func(e *env, registry *inspect.Registry) {
		e.put(1, 1)
		a, b, c := e.beside("a", registry, nil), e.beside("b", registry, nil), e.beside("c", registry, nil)
		a.shares(e, "b", "c")
		b.shares(e, "a", "c")
		c.shares(e, "a", "b")
		b.stop()
		a.shares(e, "c")
		c.shares(e, "a")
		c.stop()
		a.shares(e)
	})
}

// Reconcilers are not reported if they have different fields, tables or registries.
func TestReconcilersOfDifferentFieldsAreNotDegraded(t *testing.T) {
	other := func(cfg *reconciler.Config[*object]) {
		cfg.SetStatus, cfg.GetStatus = (*object).SetOther, (*object).GetOther
	}
	t.Run("fields", func(t *testing.T) {
		bubble(t, func(e *env, registry *inspect.Registry) {
			e.put(1, 1)
			a, b := e.beside("a", registry, nil), e.beside("b", registry, other)
			a.shares(e)
			b.shares(e)
			c := e.beside("c", registry, other)
			a.shares(e)
			b.shares(e, "c")
			c.shares(e, "b")
		})
	})
	t.Run("tables", func(t *testing.T) {
		bubble(t, func(e *env, registry *inspect.Registry) {
			table, err := statedb.NewTable(e.db, "others", idIndex)
			require.NoError(e, err)
			a := e.beside("a", registry, nil)
			b := e.beside("b", registry, func(cfg *reconciler.Config[*object]) { cfg.Table = table })
			e.put(1, 1)
			wtxn := e.db.WriteTxn(table)
			_, _, err = table.Insert(wtxn, &object{ID: 1, Status: reconciler.StatusPending()})
			require.NoError(e, err)
			wtxn.Commit()
			a.shares(e)
			b.shares(e)
		})
	})
	t.Run("registries", func(t *testing.T) {
		bubble(t, func(e *env, registry *inspect.Registry) {
			e.put(1, 1)
			for _, s := range []*sharer{
				e.beside("a", registry, nil), e.beside("b", &inspect.Registry{}, nil), e.beside("c", nil, nil), e.beside("d", nil, nil),
			} {
				s.shares(e)
			}
		})
	})
}

// Health also reports other failures. A loop that was added to the registry by hand and does not
// run is no sharer.
func TestSharedFieldIsReportedBesideFailures(t *testing.T) {
	bubble(t, func(e *env, registry *inspect.Registry) {
		idle, err := reconciler.New(e.config())
		require.NoError(e, err)
		registry.Add(idle)
		e.put(1, 1)
		failing := newTarget()
		failing.failing("no")
		a := e.beside("a", registry, func(cfg *reconciler.Config[*object]) {
			cfg.Operations, cfg.Options = failing, append(cfg.Options, reconciler.WithoutPruning())
		})
		synctest.Wait()
		_, message, _ := a.Now()
		require.Equal(e, "1 error(s)", message)
		b := e.beside("b", registry, nil)
		synctest.Wait()
		_, message, err = a.Now()
		require.Equal(e, sharedField+", 1 error(s)", message)
		require.ErrorContains(e, err, `this one and "b"`)
		require.ErrorContains(e, err, "no")
		b.stop()
		synctest.Wait()
		_, message, _ = a.Now()
		require.Equal(e, "1 error(s)", message)
	})
}

// A user function that panics during the check for sharers ends no loop.
func TestPanicOfAnotherReconcilersFunctionEndsNoLoop(t *testing.T) {
	bubble(t, func(e *env, registry *inspect.Registry) {
		var armed atomic.Bool
		a := e.beside("a", registry, func(cfg *reconciler.Config[*object]) {
			cfg.GetStatus = func(o *object) reconciler.Status {
				if armed.Load() && o.Value == 7 {
					panic("no 7")
				}
				return o.Status
			}
		})
		e.put(1, 1)
		synctest.Wait()
		armed.Store(true)
		b := e.beside("b", registry, func(cfg *reconciler.Config[*object]) {
			cfg.Clone = func(o *object) *object { c := *o; c.Value = 7; return &c }
		})
		synctest.Wait()
		require.Contains(e, e.Logged(), "no 7")
		armed.Store(false)
		e.put(2, 1)
		a.shares(e)
		b.shares(e)
		require.Equal(e, reconciler.StatusKindDone, e.kind(1))
	})
}

// However loops come and go, each running loop names exactly the other running ones.
func TestEachSharerNamesTheOtherRunningOnes(t *testing.T) {
	bubble(t, func(e *env, registry *inspect.Registry) {
		seed := rand.Uint64()
		e.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		e.put(1, 1)
		running := map[string]*sharer{}
		for range 10 {
			var stops sync.WaitGroup
			for i := range 5 {
				name := string(rune('a' + i))
				s := running[name]
				switch {
				case rng.IntN(2) == 0:
				case s == nil:
					running[name] = e.beside(name, registry, nil)
				default:
					delete(running, name)
					stops.Go(s.stop)
				}
			}
			if rng.IntN(2) == 0 {
				time.Sleep(time.Second)
			}
			stops.Wait()
			synctest.Wait()
			for name, s := range running {
				var with []string
				for i := range 5 {
					if other := string(rune('a' + i)); other != name && running[other] != nil {
						with = append(with, other)
					}
				}
				s.shares(e, with...)
			}
		}
	})
}
