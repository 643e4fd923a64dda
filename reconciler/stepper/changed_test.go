// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

// stored returns a row and its revision.
func (e *env) stored(id uint64) (*row, statedb.Revision) {
	r, revision, found := e.Table.Get(e.DB.ReadTxn(), harness.ByID.Query(id))
	require.True(e, found, "row %d", id)
	return r, revision
}

// ways are outcomes that do not change the status when they are repeated.
var ways = map[string]func(c *stepper.Call[*row]){
	"requeue": func(c *stepper.Call[*row]) { c.AddOp("disk", "looked up", nil, time.Minute) },
	"failure": func(c *stepper.Call[*row]) { c.AddOp("disk", "looked up", errors.New("busy"), time.Minute) },
	"give-up": func(c *stepper.Call[*row]) { c.AddGiveupError("disk", "looked up", nil) },
	"panic":   func(*stepper.Call[*row]) { panic("oops") },
}

// everyMinute is the backoff of the way "panic"; the others have delays.
var everyMinute = reconciler.WithRetry(time.Minute, time.Minute)

// engines returns a stepper and a free style that call do once for each reconciliation.
func engines(do func(c *stepper.Call[*row])) map[string]func() stepper.Engine[*row] {
	return map[string]func() stepper.Engine[*row]{
		"stepper": func() stepper.Engine[*row] {
			return stepper.NewStepper(in(stepper.Updater, func(e *stepper.Stepper[*row]) { do(&e.Call) }))
		},
		"free style": func() stepper.Engine[*row] {
			return stepper.NewFreeStyle(stepper.FreeStyleHookFunc[*row](func(e *stepper.FreeStyle[*row]) { do(&e.Call) }))
		},
	}
}

func TestChangesOfAHookAreWrittenWithAnyOutcome(t *testing.T) {
	for way, finish := range ways {
		for name, engine := range engines(func(c *stepper.Call[*row]) { c.Object().Value++; finish(c) }) {
			t.Run(way+" of a "+name, func(t *testing.T) {
				withWorkers(t, engine, func(e *env) {
					e.Insert(pending(1, 0))
					e.Pass(9*time.Minute + time.Second)
					r, _ := e.stored(1)
					require.Equal(e, 10, r.Value, "one for each minute")
				}, everyMinute)
			})
		}
	}
}

func TestUnchangedRowsAreNotWrittenAgain(t *testing.T) {
	for way, finish := range ways {
		var calls atomic.Int32
		for name, engine := range engines(func(c *stepper.Call[*row]) { calls.Add(1); c.Object().Value = 7; finish(c) }) {
			t.Run(way+" of a "+name, func(t *testing.T) {
				withWorkers(t, func() stepper.Engine[*row] { calls.Store(0); return engine() }, func(e *env) {
					e.Insert(pending(1, 0))
					e.Pass(time.Second)
					_, first := e.stored(1)
					e.Pass(9 * time.Minute)
					require.EqualValues(e, 10, calls.Load())
					_, last := e.stored(1)
					require.Equal(e, first, last)
				}, everyMinute)
			})
		}
	}
}
