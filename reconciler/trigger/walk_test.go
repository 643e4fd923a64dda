// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
)

// followWalk changes ports, objects and statuses at random. Meanwhile the target is slow and fails,
// the dependents function panics, and the trigger stops and starts.
type followWalk struct {
	*followed
	steps *rand.Rand

	// The fields below are also used by the loop and the trigger.
	mu     sync.Mutex
	dice   *rand.Rand
	wild   bool
	faults int
}

// chance returns true once in n calls on average while the walk is wild.
func (w *followWalk) chance(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	hit := w.wild && w.dice.IntN(n) == 0
	if hit {
		w.faults++
	}
	return hit
}

func (w *followWalk) setWild(wild bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wild = wild
}

func (w *followWalk) dependents(change statedb.Change[*port]) []statedb.Query[*object] {
	if w.chance(10) {
		panic("by chance")
	}
	queries := onPort(change)
	if w.chance(5) {
		queries = append(queries, onPort(change)...)
	}
	return queries
}

func (w *followWalk) operate(call) error {
	if w.chance(20) {
		time.Sleep(15 * time.Millisecond)
	}
	switch {
	case w.chance(5):
		return errors.New("by chance")
	case w.chance(10):
		return reconciler.Requeue(5 * time.Millisecond)
	}
	return nil
}

func (w *followWalk) port() string { return fmt.Sprintf("eth%d", w.steps.IntN(10)) }
func (w *followWalk) id() uint64   { return uint64(w.steps.IntN(60)) }

func (w *followWalk) step(n int) {
	switch w.steps.IntN(11) {
	case 0, 1, 2:
		w.set(n, w.port())
	case 3:
		w.set(n, w.port(), w.port(), w.port())
	case 4:
		w.unset(w.port())
	case 5, 6:
		w.add(w.port(), reconciler.StatusPending, w.id())
	case 7:
		w.Remove(w.id())
	case 8: // another writer
		if o := w.Row(w.id()); o != nil {
			w.Insert(o.Clone().SetOther(reconciler.StatusDone()))
		}
	case 9:
		if w.steps.IntN(5) == 0 {
			w.halt()
			time.Sleep(time.Duration(w.steps.IntN(int(2 * time.Second))))
			w.resume()
		}
	default:
		time.Sleep(time.Duration(w.steps.IntN(int(20 * time.Millisecond))))
	}
}

// At the end every object is reconciled with the last version of its port, whatever happened before.
func TestRandomWalkOfDependencies(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			withPorts(t, func(f *followed) {
				w := &followWalk{
					followed: f, wild: true,
					steps: rand.New(rand.NewPCG(seed, 1)), dice: rand.New(rand.NewPCG(seed, 2)),
				}
				f.target.deciding(0, w.operate)
				f.Start(f.cfg)
				f.follow(w.dependents)
				for n := range long.Times(1000) {
					w.step(n)
					if n%250 == 249 {
						w.setWild(false)
						w.Pass(10 * time.Second)
						w.applied()
						w.setWild(true)
					}
				}
				require.Greater(w, w.faults, 100)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }),
				reconciler.WithRetry(10*time.Millisecond, 100*time.Millisecond))
		})
	}
}
