// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
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

func (w *followWalk) tame() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wild = false
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

func (w *followWalk) port() string { return fmt.Sprintf("eth%d", w.steps.IntN(10)) }
func (w *followWalk) id() uint64   { return uint64(w.steps.IntN(60)) }

// rewrite changes an object if it exists.
func (w *followWalk) rewrite(id uint64, change func(o *object)) {
	w.Write(func(wtxn statedb.WriteTxn) {
		if o, _, found := w.Table.Get(wtxn, harness.ByID.Query(id)); found {
			o = o.Clone()
			change(o)
			_, _, err := w.Table.Insert(wtxn, o)
			require.NoError(w, err)
		}
	})
}

func (w *followWalk) step(n int) {
	switch w.steps.IntN(12) {
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
	case 8:
		w.rewrite(w.id(), func(o *object) { o.SetOther(reconciler.StatusDone()) })
	case 9:
		w.rewrite(w.id(), func(o *object) { o.SetStatus(reconciler.StatusRefreshing()) })
	case 10:
		if w.steps.IntN(5) == 0 {
			w.halt()
			time.Sleep(time.Duration(w.steps.IntN(int(2 * time.Second))))
			w.resume()
		}
	default:
		time.Sleep(time.Duration(w.steps.IntN(int(20 * time.Millisecond))))
	}
}

// check requires every object to be Done with the current value of its port, or Blocked if the port
// is missing. Only the trigger reports changes of ports to the loop.
func (w *followWalk) check() {
	w.Helper()
	txn := w.DB.ReadTxn()
	holds, done := w.target.holds(), 0
	for o := range w.Table.All(txn) {
		d, _, found := w.ports.Get(txn, portIndex.Query(o.Note))
		if !found {
			require.Equal(w, reconciler.StatusKindBlocked, o.Status.Kind, "object %d: %s", o.ID, o.Status)
			continue
		}
		require.Equal(w, reconciler.StatusKindDone, o.Status.Kind, "object %d: %s", o.ID, o.Status)
		require.Equal(w, d.Value, holds[o.ID], "value of the port of object %d", o.ID)
		done++
	}
	require.Positive(w, done)
}

// At the end every object is reconciled with the last version of its port, whatever happened before.
func TestRandomWalkOfDependencies(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			withPorts(t, func(f *followed) {
				f.concurrent = workers > 1
				w := &followWalk{
					followed: f, wild: true,
					steps: rand.New(rand.NewPCG(seed, 1)), dice: rand.New(rand.NewPCG(seed, 2)),
				}
				f.target.deciding(func(c call) error {
					if w.chance(20) {
						time.Sleep(15 * time.Millisecond)
					}
					switch {
					case c.Op != "delete" && c.Object.Value == noPort:
						return reconciler.Blocked("no port")
					case w.chance(5):
						return errors.New("by chance")
					case c.Op != "delete" && w.chance(20):
						return reconciler.TerminalError(errors.New("for good"))
					}
					return nil
				})
				f.follow(w.dependents)
				f.runLoop()
				for n := range long.Times(1000) {
					w.step(n)
					if n%250 == 249 {
						w.quiet()
					}
				}
				require.Greater(w, w.faults, 100)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRetry(10*time.Millisecond, 100*time.Millisecond))
		})
	}
}

// quiet turns faults off, waits, checks the objects, and turns faults on again.
func (w *followWalk) quiet() {
	w.tame()
	w.Pass(10 * time.Second)
	// A terminal failure ends only when the object itself changes.
	for o := range w.Table.All(w.DB.ReadTxn()) {
		if o.Status.GetError() == "for good" {
			w.rewrite(o.ID, func(o *object) { o.SetStatus(reconciler.StatusPending()) })
		}
	}
	w.Pass(10 * time.Second)
	w.check()
	w.mu.Lock()
	w.wild = true
	w.mu.Unlock()
	synctest.Wait()
}
