// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/stepper"
)

// The straight-on states of this graph form a circle: only an error leads to End.
func TestAnEndlessWalkIsGivenUp(t *testing.T) {
	g, err := stepper.NewGraph(
		stepper.Node{State: "First", Next: to{"Ping"}},
		stepper.Node{State: "Ping", Next: to{"Pong", stepper.ErrorManager}},
		stepper.Node{State: "Pong", Next: to{"Ping"}},
		stepper.Node{State: stepper.ErrorManager, Next: to{stepper.End}},
		stepper.Node{State: stepper.End})
	require.NoError(t, err)
	entered := 0
	s := stepper.NewStepperOn(g, stepper.StepperEngineHookFunc[*row](func(*stepper.Stepper[*row]) { entered++ }))
	for range 2 {
		entered = 0
		require.EqualError(t, s.Reconcile(t.Context(), nil, 1, &row{}, false),
			`given up: the walk did not come to "End": it entered 1000 states, the last of them Pong > Ping > Pong > Ping > Pong > Ping`)
		require.Equal(t, stepper.MaxSteps, entered)
		require.Equal(t, 1, s.OpsCount(stepper.OperationInfiniteLoop))
		giveup, _ := s.ConsolidatedError()
		require.True(t, giveup)
	}
}

// A graph with its own states and edges: the hook leaves a circle by GoTo, and an error without an
// edge to ErrorManager is still returned.
func TestWalksFollowACustomGraph(t *testing.T) {
	g, err := stepper.NewGraph(
		stepper.Node{State: "Plan", Next: to{"Apply"}},
		stepper.Node{State: "Apply", Next: to{"Verify"}},
		stepper.Node{State: "Verify", Next: to{stepper.End, "Apply", stepper.GiveupManager}},
		stepper.Node{State: stepper.GiveupManager, Next: to{stepper.End}},
		stepper.Node{State: stepper.End})
	require.NoError(t, err)
	boom := errors.New("boom")
	again, fail := 2, false
	s := stepper.NewStepperOn(g, stepper.StepperEngineHookFunc[*row](func(e *stepper.Stepper[*row]) {
		switch e.GetState() {
		case "Plan":
			if fail {
				e.AddOp("disk", "planned", boom, 0)
			}
		case "Verify":
			if again--; again >= 0 {
				require.NoError(t, e.GoTo("Apply"))
			}
		}
	}))
	require.Same(t, g, s.Graph())
	require.NoError(t, s.Reconcile(t.Context(), nil, 1, &row{}, false))
	require.Equal(t, "Plan > Apply > Verify > Apply > Verify > Apply > Verify > End", s.PathOfStates())
	fail = true
	require.Equal(t, boom, s.Reconcile(t.Context(), nil, 1, &row{}, false))
	require.Equal(t, "Plan > Apply > Verify > End", s.PathOfStates())
}

// GoTo returns an error for a missing edge, and the walk is given up.
func TestGoToWithoutAnEdgeIsAGiveup(t *testing.T) {
	s := stepper.NewStepper(in(stepper.Mutator, func(e *stepper.Stepper[*row]) {
		require.EqualError(t, e.GoTo(stepper.SuccessManager), `given up: state "Mutator" does not lead to "SuccessManager"`)
	}))
	require.ErrorIs(t, s.Reconcile(t.Context(), nil, 1, &row{}, false), stepper.ErrGiveUpReconciliation)
	require.Equal(t, "CRChecker > ObjectsGetter > Mutator > ErrorManager > GiveupManager > End", s.PathOfStates())
	require.Equal(t, 1, s.OpsCount(stepper.OperationUnknownEdge))
}

// Run adds to the existing results, Reconcile empties them first.
func TestRunKeepsExistingResults(t *testing.T) {
	s := stepper.NewStepper(stepper.StepperEngineHookFunc[*row](func(e *stepper.Stepper[*row]) {
		require.NotNil(t, e.Context())
		require.Nil(t, e.Txn())
		e.AddOpSuccess("", "step")
	}))
	require.Empty(t, s.PathOfStates())
	s.Run()
	s.Run()
	require.Equal(t, 10, s.OpsCount("step"))
	s.ResetAllResults()
	s.Run()
	require.Equal(t, 5, s.OpsCount("step"))
	own := &stepper.Results{}
	s.SetResults(own)
	s.Run()
	require.Equal(t, 5, own.OpsCount("step"))
	require.NoError(t, s.Reconcile(t.Context(), nil, 1, &row{}, true))
	require.Equal(t, 2, own.OpsCount("step"), "a deleted row has two states before End")
	require.Equal(t, 1, own.OpsCount(stepper.OperationCRIsFinalizing))
	s.SetResults(nil)
	s.Run()
	require.Equal(t, 2, own.OpsCount("step"))
}

// A hook has access to the arguments of the operation.
func TestHooksHaveTheArgumentsOfTheOperation(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "here")
	r := &row{ID: 7}
	calls := 0
	look := func(c *stepper.Call[*row]) {
		calls++
		require.Equal(t, "here", c.Context().Value(key{}))
		require.Same(t, r, c.Object())
		require.EqualValues(t, 9, c.Revision())
		require.True(t, c.Deleted())
	}
	s := stepper.NewStepper(stepper.StepperEngineHookFunc[*row](func(e *stepper.Stepper[*row]) { look(&e.Call) }))
	require.NoError(t, s.Reconcile(ctx, nil, 9, r, true))
	f := stepper.NewFreeStyle(stepper.FreeStyleHookFunc[*row](func(e *stepper.FreeStyle[*row]) { look(&e.Call) }))
	require.NoError(t, f.Reconcile(ctx, nil, 9, r, true))
	require.Equal(t, 3, calls)
}

// The engine logs in the states in which the hook is not called.
func TestEngineLogsGiveupsAndPaths(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	var reason error
	s := stepper.NewStepper(stepper.StepperEngineHookFunc[*row](func(e *stepper.Stepper[*row]) {
		e.AddGiveupError("", "checked", reason)
	}))
	s.SetLogger(log)
	s.Run()
	s.ResetAllResults()
	reason = errors.New("alarming")
	s.Run()
	s.SetLogger(nil)
	s.Run()
	s.DisplayPathOfStates(log)
	s.DisplayPathOfStates(nil)
	require.Equal(t, `level=INFO msg="reconciliation given up"
level=DEBUG msg=reconciled path="CRChecker > GiveupManager > End"
level=ERROR msg="reconciliation given up" error=alarming
level=DEBUG msg=reconciled path="CRChecker > ErrorManager > GiveupManager > End"
level=INFO msg="path of states" path="CRChecker > ErrorManager > GiveupManager > End"
`, out.String())
}
