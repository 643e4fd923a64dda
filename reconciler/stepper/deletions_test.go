// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

// withWorkers runs a test with 1 and with 8 workers.
func withWorkers(t *testing.T, engine func() stepper.Engine[*row], test func(e *env), opts ...reconciler.Option) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d worker(s)", workers), func(t *testing.T) {
			inBubble(t, engine(), test, append(opts, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))...)
		})
	}
}

// applied requires that everything is applied, or that something is not.
func (e *env) applied(want bool) {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	unapplied, err := e.Loop.Wait(ctx, e.Table.Revision(e.DB.ReadTxn()), reconciler.Applied)
	if want {
		require.NoError(e, err)
		require.NoError(e, unapplied.Err())
	} else {
		require.True(e, err != nil || unapplied.Err() != nil, "everything is applied")
	}
}

// A row is created, changed to a size that is refused, and deleted. Its disk is removed.
func TestFinalizingIgnoresAGiveupOfTheChecker(t *testing.T) {
	refusals := map[string]func(e *stepper.Stepper[*row]){
		"with error":    func(e *stepper.Stepper[*row]) { e.AddGiveupError("disk", "check", errors.New("too large")) },
		"without error": func(e *stepper.Stepper[*row]) { e.AddGiveupError("disk", "check", nil) },
		"beside an error": func(e *stepper.Stepper[*row]) {
			e.AddOp("disk", "check", errors.New("odd"), 0)
			e.AddGiveupError("disk", "check", errors.New("too large"))
		},
	}
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			var disk atomic.Bool
			hook := stepper.StepperEngineHookFunc[*row](func(e *stepper.Stepper[*row]) {
				switch e.GetState() {
				case stepper.CRChecker:
					if e.Object().Value > 1000 {
						refuse(e)
					}
				case stepper.Updater:
					disk.Store(true)
				case stepper.CRFinalizer:
					require.Zero(t, e.ErrorsCount(), "results of CRChecker do not count")
					disk.Store(false)
				}
			})
			withWorkers(t, func() stepper.Engine[*row] { return stepper.NewStepper(hook) }, func(e *env) {
				e.Insert(pending(1, 10))
				synctest.Wait()
				e.Insert(pending(1, 5000))
				e.Pass(time.Minute)
				require.True(e, disk.Load())
				e.Remove(1)
				e.Pass(time.Hour)
				require.False(e, disk.Load(), "the disk leaks: %v", e.events(1))
				require.Equal(e, "delete done: CRChecker > CRFinalizer > End", e.events(1)[len(e.events(1))-1])
				e.applied(true)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 3 }))
		})
	}
}

// A hook that polls adds a delay in CRChecker. It does not apply to deleted rows.
func TestADelayInTheCheckerDoesNotProlongADeletion(t *testing.T) {
	hook := in(stepper.CRChecker, func(e *stepper.Stepper[*row]) { e.AddOp("disk", "looked up", nil, time.Minute) })
	withWorkers(t, func() stepper.Engine[*row] { return stepper.NewStepper(hook) }, func(e *env) {
		e.Insert(pending(1, 1))
		synctest.Wait()
		e.Remove(1)
		e.Pass(time.Second)
		e.applied(true)
		require.Equal(e, "delete done: CRChecker > CRFinalizer > End", e.events(1)[1])
	})
}

// A delay in CRFinalizer means that the deletion is still going on: the row is not applied until
// there is no delay.
func TestADelayInTheFinalizerContinuesTheDeletion(t *testing.T) {
	var looks atomic.Int32
	hook := in(stepper.CRFinalizer, func(e *stepper.Stepper[*row]) {
		if looks.Add(1) < 4 {
			e.AddOp("disk", "being removed", nil, 20*time.Second)
		}
	})
	withWorkers(t, func() stepper.Engine[*row] { looks.Store(0); return stepper.NewStepper(hook) }, func(e *env) {
		e.Insert(pending(1, 1))
		synctest.Wait()
		e.Remove(1)
		e.Pass(59 * time.Second)
		e.applied(false)
		require.EqualValues(e, 3, looks.Load())
		e.Pass(time.Second)
		e.applied(true)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 1 }))
}

// A hook may finalize a row that still exists. Neither failures nor give-ups end that.
func TestFinalizingAnExistingRowIsNeverGivenUp(t *testing.T) {
	failures := map[string]func(e *stepper.Stepper[*row]){
		"failure": func(e *stepper.Stepper[*row]) { e.AddOp("disk", "removed", errors.New("busy"), 0) },
		"panic":   func(*stepper.Stepper[*row]) { panic("busy") },
		"give-up": func(e *stepper.Stepper[*row]) { e.AddGiveupError("disk", "removed", errors.New("busy")) },
		"terminal": func(e *stepper.Stepper[*row]) {
			e.AddOp("disk", "removed", reconciler.TerminalError(errors.New("busy")), 0)
		},
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			hook := stepper.StepperEngineHookFunc[*row](func(e *stepper.Stepper[*row]) {
				switch e.GetState() {
				case stepper.CRChecker:
					e.AddOpSuccess("", stepper.OperationCRIsFinalizing)
				case stepper.CRFinalizer:
					if calls.Add(1) < 10 {
						fail(e)
					}
				}
			})
			withWorkers(t, func() stepper.Engine[*row] { calls.Store(0); return stepper.NewStepper(hook) }, func(e *env) {
				e.Insert(pending(1, 1))
				e.Pass(time.Hour)
				require.EqualValues(e, 10, calls.Load())
				e.applied(true)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 2 }))
		})
	}
}
