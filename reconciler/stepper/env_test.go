// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	row  = harness.Object
	call = stepper.Call[*row]
	// steps and freely are hooks.
	steps  = stepper.StepperEngineHookFunc[*row]
	freely = stepper.FreeStyleHookFunc[*row]
)

func pending(id uint64, value int) *row {
	return &row{ID: id, Value: value, Status: reconciler.StatusPending()}
}

// The interfaces that programs use for hooks and engines.
var (
	_ stepper.StepperEngineHook[*row] = steps(nil)
	_ stepper.FreeStyleHook[*row]     = freely(nil)
	_                                 = stepper.FreeStyleHook[*row].ReconcileWithCR
	_ stepper.Engine[*row]            = (*stepper.Stepper[*row])(nil)
	_ stepper.Engine[*row]            = (*stepper.FreeStyle[*row])(nil)
)

// in returns a hook that calls do in one state.
func in(state stepper.State, do func(c *call)) steps {
	return func(e *stepper.Stepper[*row]) {
		if e.GetState() == state {
			do(&e.Call)
		}
	}
}

// engines returns a stepper and a free style that call do once for each reconciliation.
func engines(do func(c *call)) map[string]stepper.Engine[*row] {
	return map[string]stepper.Engine[*row]{
		"stepper":    stepper.NewStepper(in(stepper.Updater, do)),
		"free style": stepper.NewFreeStyle(freely(func(e *stepper.FreeStyle[*row]) { do(&e.Call) })),
	}
}

// operationsOf returns the operations of a configuration with the engine.
func operationsOf(tb testing.TB, engine stepper.Engine[*row]) reconciler.ObjectOperations[*row] {
	cfg, err := stepper.Configure(harness.Config(nil), engine)
	require.NoError(tb, err)
	return cfg.Operations
}

// env is a table and a loop with an engine.
type env struct{ harness.Env }

// inBubble runs a test with an engine on a loop in a bubble of virtual time.
func inBubble(t *testing.T, engine stepper.Engine[*row], test func(e *env), opts ...reconciler.Option) {
	synctest.Test(t, func(t *testing.T) {
		e := &env{harness.New(t, harness.ByID, nil)}
		cfg, err := stepper.Configure(harness.Config(nil, append([]reconciler.Option{
			reconciler.WithRefreshing(0, nil), reconciler.WithRetry(100*time.Millisecond, time.Minute),
		}, opts...)...), engine)
		require.NoError(e, err)
		e.Start(cfg)
		test(e)
		e.Stop()
	})
}

// text returns the kind of a row's status, and its error.
func (e *env) text(id uint64) string {
	s := e.Status(&row{ID: id})
	if text := s.GetError(); text != "" {
		return s.Kind.String() + ": " + text
	}
	return s.Kind.String()
}

// events returns "operation result: note" for each operation on a row, the latest last.
func (e *env) events(id uint64) []string {
	var events []string
	for _, ev := range e.Loop.Explain(e.Context(), strconv.FormatUint(id, 10)).Operations {
		events = append(events, ev.Op+" "+string(ev.Result)+": "+ev.Note)
	}
	return events
}

// applied reports whether everything is applied.
func (e *env) applied() bool {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), time.Nanosecond)
	defer cancel()
	unapplied, err := e.Loop.Wait(ctx, e.Table.Revision(e.DB.ReadTxn()), reconciler.Applied)
	return err == nil && unapplied.Err() == nil
}
