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
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is a row of the test's table.
type row = harness.Object

func pending(id uint64, value int) *row {
	return &row{ID: id, Value: value, Status: reconciler.StatusPending()}
}

// The interfaces that programs use for hooks and engines.
var (
	_ stepper.StepperEngineHook[*row] = stepper.StepperEngineHookFunc[*row](nil)
	_ stepper.FreeStyleHook[*row]     = stepper.FreeStyleHookFunc[*row](nil)
	_ stepper.Engine[*row]            = (*stepper.Stepper[*row])(nil)
	_ stepper.Engine[*row]            = (*stepper.FreeStyle[*row])(nil)
)

// env is a table and a loop with an engine.
type env struct{ harness.Env }

func newEnv(t testing.TB) *env { return &env{harness.New(t, harness.ByID, nil)} }

func (e *env) config(opts ...reconciler.Option) reconciler.Config[*row] {
	cfg := harness.Config(nil, append([]reconciler.Option{
		reconciler.WithRefreshing(0, nil), reconciler.WithRetry(100*time.Millisecond, time.Minute),
	}, opts...)...)
	return e.Config(cfg)
}

// operationsOf returns the operations of a configuration with the engine.
func operationsOf(tb testing.TB, engine stepper.Engine[*row]) reconciler.Operations[*row] {
	cfg, err := stepper.Configure(harness.Config(nil), engine)
	require.NoError(tb, err)
	return cfg.Operations
}

// inBubble runs a test with an engine on a loop in a bubble of virtual time.
func inBubble(t *testing.T, engine stepper.Engine[*row], test func(e *env), opts ...reconciler.Option) {
	inBubbleAnd(t, engine, func(*reconciler.Config[*row]) {}, test, opts...)
}

// inBubbleAnd also changes the configuration.
func inBubbleAnd(t *testing.T, engine stepper.Engine[*row], change func(cfg *reconciler.Config[*row]), test func(e *env), opts ...reconciler.Option) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		cfg := e.config(opts...)
		change(&cfg)
		e.start(cfg, engine)
		test(e)
		synctest.Wait()
		e.Stop()
	})
}

// start starts a loop with an engine.
func (e *env) start(cfg reconciler.Config[*row], engine stepper.Engine[*row]) {
	cfg, err := stepper.Configure(cfg, engine)
	require.NoError(e, err)
	e.Start(cfg)
}

// status returns the kind and the error text of a row's status.
func (e *env) status(id uint64) (reconciler.StatusKind, string) {
	s := e.Status(&row{ID: id})
	return s.Kind, s.GetError()
}

// events returns "operation result: note" for each operation on a row, the latest last.
func (e *env) events(id uint64) []string {
	var events []string
	for _, ev := range e.Loop.Explain(context.Background(), strconv.FormatUint(id, 10)).Events {
		events = append(events, ev.Op+" "+string(ev.Result)+": "+ev.Note)
	}
	return events
}

func (e *env) snapshot() inspect.Snapshot { return e.Loop.Snapshot(context.Background()) }
