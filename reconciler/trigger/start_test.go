// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// What a function of the program ends does not go on, and nothing waits for it.
func TestTriggerWhoseFunctionEndsItsGoroutineIsReported(t *testing.T) {
	bothLedgers(t, func(f *followed) {
		f.Start(f.cfg)
		f.prepare(f.ports, func(statedb.Change[*port]) []statedb.Query[*object] { runtime.Goexit(); return nil })
		ended := make(chan error, 1)
		go func() { ended <- f.trigger.Run(f.Context()) }()
		f.set(1, "eth0")
		f.Pass(time.Second)
		select {
		case err := <-ended:
			require.ErrorContains(f, err, "trigger-ports: a function of the program called runtime.Goexit")
		default:
			f.Error("the run has not returned")
		}
		level, message, _ := f.health.Now()
		require.Equal(f, cell.StatusDegraded, level, message)
		f.unset("eth0")
		f.Pass(time.Minute)
		require.Equal(f, "0", f.metrics.GraveyardObjectCountVar.Get("ports").String())
	})
}

// bothLedgers runs a test with the status in the rows and beside.
func bothLedgers(t *testing.T, test func(f *followed)) {
	for _, name := range []string{"in the rows", "beside"} {
		t.Run(name, func(t *testing.T) {
			withPorts(t, func(f *followed) {
				if name == "beside" {
					f.cfg.Clone, f.cfg.SetStatus, f.cfg.GetStatus = nil, nil, nil
				}
				test(f)
			})
		})
	}
}

// slowList lists some objects in a second.
type slowList []*object

func (l slowList) List(_ context.Context, _ statedb.ReadTxn, yield func(*object) bool) error {
	time.Sleep(time.Second)
	for _, o := range l {
		yield(o)
	}
	return nil
}

func TestEqualRowsAreNotAppliedAtTheStart(t *testing.T) {
	for _, late := range []time.Duration{0, 500 * time.Millisecond, 5 * time.Second} {
		for _, source := range []string{"before", "during the listing"} {
			if source != "before" && late > time.Second {
				continue
			}
			t.Run(fmt.Sprintf("trigger after %s, source filled %s", late, source), func(t *testing.T) {
				bothLedgers(t, func(f *followed) {
					var there slowList
					for _, id := range harness.IDs(1, 500) {
						there = append(there, &object{ID: id, Note: "eth0"})
					}
					f.add("eth0", reconciler.StatusPending, harness.IDs(1, 500)...)
					if source == "before" {
						f.set(1, "eth0")
					}
					f.cfg.Lister, f.cfg.Equal = there, func(_, _ *object) bool { return true }
					f.prepare(f.ports, onPort)
					stop := reconcilertest.Go(f, f.Loop.Run)
					time.Sleep(late)
					f.resume()
					if source != "before" {
						time.Sleep(200 * time.Millisecond)
						f.set(1, "eth0")
					}
					f.Pass(time.Minute)
					require.Empty(f, f.target.Calls(), "operations on equal rows")
					f.set(2, "eth0")
					f.Pass(time.Minute)
					require.Len(f, f.target.Take(), 500)
					stop()
					f.halt()
				})
			})
		}
	}
}

// A program may restore its rows after it has made the trigger, with what another process said of them.
func TestRestoredRowIsAppliedAsItsSourceIsNow(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.set(1, "eth0")
		f.prepare(f.ports, onPort)
		var done reconciler.Status
		require.NoError(f, json.Unmarshal([]byte(`{"id": 5, "kind": "Done"}`), &done))
		f.Insert(&object{ID: 1, Note: "eth0", Status: done})
		stop := reconcilertest.Go(f, f.Loop.Run)
		f.resume()
		f.Pass(time.Second)
		require.Len(f, f.target.Calls(), 1)
		stop()
		f.halt()
	})
}

// A trigger that is made while the loop runs does not know with which version of a port an object was applied.
func TestTriggerOfARunningLoopAppliesAllDependents(t *testing.T) {
	bothLedgers(t, func(f *followed) {
		f.set(1, "eth0")
		f.add("eth0", reconciler.StatusPending, 1, 2)
		f.Start(f.cfg)
		f.Pass(time.Second)
		f.target.Take()
		f.follow(onPort)
		f.Pass(time.Second)
		require.Len(f, f.target.Take(), 2)
	})
}

func TestTriggerEndsWithItsLoop(t *testing.T) {
	bothLedgers(t, func(f *followed) {
		f.prepare(f.ports, onPort)
		go func() { _ = f.Loop.Run(f.Context()) }()
		f.resume()
		f.target.deciding(0, func(call) error { runtime.Goexit(); return nil })
		f.add("eth0", reconciler.StatusPending, 1)
		f.Pass(time.Second)
		revision := f.Table.Revision(f.DB.ReadTxn())
		for value := range 10 {
			f.set(value, "eth0", "eth1")
			f.Pass(time.Second)
			f.unset("eth0", "eth1")
			f.Pass(time.Second)
		}
		f.Pass(time.Minute)
		require.Equal(f, "0", f.metrics.GraveyardObjectCountVar.Get("ports").String())
		require.Equal(f, revision, f.Table.Revision(f.DB.ReadTxn()), "nothing is marked for a loop that has ended")
		f.halt()
		synctest.Wait()
	})
}
