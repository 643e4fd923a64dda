// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/trigger"
)

// watched is a target whose objects can be listed and got.
type watched struct {
	target
	gets atomic.Int64
}

func (w *watched) List(_ context.Context, _ statedb.ReadTxn, yield func(*object) bool) error {
	for _, o := range w.Objects() {
		yield(o)
	}
	return nil
}

func (w *watched) Get(_ context.Context, _ statedb.ReadTxn, wanted *object) (*object, bool, error) {
	w.gets.Add(1)
	_, has := w.holds()[wanted.ID]
	return wanted, has, nil
}

// The source shows what the target has: a burst of changes costs one look at each object, and what is gone is back soon.
func TestObservedRowsHaveTheirDependentsVerified(t *testing.T) {
	bothLedgers(t, func(f *followed) {
		w := &watched{target: f.target}
		f.cfg.Lister, f.cfg.Operations, f.cfg.Equal = w, w, func(wanted, found *object) bool { return wanted.ID == found.ID }
		f.add("eth0", reconciler.StatusPending, 1, 2)
		f.add("eth1", reconciler.StatusPending, 3)
		f.set(1, "eth0", "eth1")
		f.Start(f.cfg)
		f.Pass(time.Second)
		f.target.Take()
		var err error
		f.trigger, err = trigger.New(trigger.Config[*object, *port]{Loop: f.Loop, Source: f.ports, Dependents: onPort, Verify: true})
		require.NoError(f, err)
		f.Cleanup(f.trigger.Close)
		f.resume()
		f.Pass(time.Second)
		require.EqualValues(f, 3, w.gets.Swap(0), "the source has rows when the trigger is made")
		require.Empty(f, f.target.Take())

		for i := range 50 {
			f.set(i, "eth0")
			f.Pass(time.Millisecond)
		}
		require.Zero(f, w.gets.Load())
		f.Pass(60 * time.Millisecond)
		require.EqualValues(f, 2, w.gets.Swap(0))
		require.Empty(f, f.target.Take())

		require.NoError(f, f.target.Delete(f.Context(), nil, 0, &object{ID: 1}))
		f.target.Take()
		f.unset("eth0")
		f.Pass(120 * time.Millisecond)
		require.Len(f, f.target.Take(), 1)
		require.Contains(f, f.target.holds(), uint64(1))
		require.EqualValues(f, 3, w.gets.Load(), "a look at 2, and at 1 before and after its repair")
		f.halt()
	})
}

// What is undone again and again is repaired ever more seldom, however often the source says so.
func TestVerifyingTriggerInAFight(t *testing.T) {
	bothLedgers(t, func(f *followed) {
		w := &watched{target: f.target}
		f.cfg.Lister, f.cfg.Operations, f.cfg.Equal = w, w, func(wanted, found *object) bool { return wanted.ID == found.ID }
		f.add("eth0", reconciler.StatusPending, 1, 2)
		f.set(1, "eth0")
		f.Start(f.cfg)
		var err error
		f.trigger, err = trigger.New(trigger.Config[*object, *port]{Loop: f.Loop, Source: f.ports, Dependents: onPort, Verify: true})
		require.NoError(f, err)
		f.Cleanup(f.trigger.Close)
		f.resume()
		fight := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); f.Pass(200 * time.Millisecond) {
				require.NoError(f, f.target.Delete(f.Context(), nil, 0, &object{ID: 1}))
				f.set(1, "eth0")
			}
			f.target.Take()
		}
		fight(time.Minute)
		require.Equal(f, 1, f.Loop.Figures().Unheld)
		f.Pass(time.Second)
		w.gets.Store(0)
		for range 10 {
			fight(time.Minute)
		}
		require.LessOrEqual(f, w.gets.Load(), int64(10*60*5+3*20), "one a burst for 2, two for each repair of 1")
		f.Pass(time.Minute)
		require.Zero(f, f.Loop.Figures().Unheld)
		require.Contains(f, f.target.holds(), uint64(1))
		f.halt()
	})
}

func TestVerifyingTriggerNeedsALister(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.Start(f.cfg)
		_, err := trigger.New(trigger.Config[*object, *port]{Loop: f.Loop, Source: f.ports, Dependents: onPort, Verify: true})
		require.ErrorContains(f, err, "Config.Verify is true, but the Lister of the reconciler is nil")
	})
	withPorts(t, func(f *followed) {
		f.cfg.Lister, f.cfg.OrphansOnly = &watched{target: f.target}, true
		f.Start(f.cfg)
		_, err := trigger.New(trigger.Config[*object, *port]{Loop: f.Loop, Source: f.ports, Dependents: onPort, Verify: true})
		require.ErrorContains(f, err, "Config.Verify is true, but OrphansOnly of the reconciler is set")
	})
}
