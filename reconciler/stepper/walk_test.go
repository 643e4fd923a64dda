// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/stepper"
)

func newGraph(t *testing.T, nodes ...stepper.Node) *stepper.Graph {
	t.Helper()
	g, err := stepper.NewGraph(nodes...)
	require.NoError(t, err)
	return g
}

// The straight-on states of this graph form a circle: only an error leads to End.
func TestAnEndlessWalkIsGivenUp(t *testing.T) {
	g := newGraph(t,
		stepper.Node{State: "First", Next: to{"Ping"}},
		stepper.Node{State: "Ping", Next: to{"Pong", stepper.ErrorManager}},
		stepper.Node{State: "Pong", Next: to{"Ping"}},
		stepper.Node{State: stepper.ErrorManager, Next: to{stepper.End}},
		stepper.Node{State: stepper.End})
	entered := 0
	s := stepper.NewStepperOn(g, steps(func(*stepper.Stepper[*row]) { entered++ }))
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
	g := newGraph(t,
		stepper.Node{State: "Plan", Next: to{"Apply"}},
		stepper.Node{State: "Apply", Next: to{"Verify"}},
		stepper.Node{State: "Verify", Next: to{stepper.End, "Apply", stepper.GiveupManager}},
		stepper.Node{State: stepper.GiveupManager, Next: to{stepper.End}},
		stepper.Node{State: stepper.End})
	boom := errors.New("boom")
	again, fail := 2, false
	s := stepper.NewStepperOn(g, steps(func(e *stepper.Stepper[*row]) {
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
	s := stepper.NewStepper(steps(func(e *stepper.Stepper[*row]) {
		if e.GetState() == stepper.Mutator {
			require.EqualError(t, e.GoTo(stepper.SuccessManager), `given up: state "Mutator" does not lead to "SuccessManager"`)
		}
	}))
	require.ErrorIs(t, s.Reconcile(t.Context(), nil, 1, &row{}, false), stepper.ErrGiveUpReconciliation)
	require.Equal(t, "CRChecker > ObjectsGetter > Mutator > ErrorManager > GiveupManager > End", s.PathOfStates())
	require.Equal(t, 1, s.OpsCount(stepper.OperationUnknownEdge))
}

// Run adds to the existing results, Reconcile empties them first. A walk has five states before End.
func TestRunKeepsExistingResults(t *testing.T) {
	type engine interface {
		stepper.Engine[*row]
		ResetAllResults()
		SetResults(*stepper.Results)
		OpsCount(stepper.Operation) int
		Reconcile(context.Context, statedb.ReadTxn, statedb.Revision, *row, bool) error
	}
	step := func(c *call) {
		require.NotNil(t, c.Context())
		require.Nil(t, c.Txn())
		c.AddOpSuccess("", "step")
	}
	s := stepper.NewStepper(steps(func(e *stepper.Stepper[*row]) { step(&e.Call) }))
	f := stepper.NewFreeStyle(freely(func(e *stepper.FreeStyle[*row]) { step(&e.Call) }))
	require.Empty(t, s.PathOfStates())
	check := func(engine engine, run func(), each int) {
		run()
		run()
		require.Equal(t, 2*each, engine.OpsCount("step"))
		engine.ResetAllResults()
		run()
		require.Equal(t, each, engine.OpsCount("step"))
		own := &stepper.Results{}
		engine.SetResults(own)
		run()
		require.Equal(t, each, own.OpsCount("step"))
		require.NoError(t, engine.Reconcile(t.Context(), nil, 1, &row{}, true))
		require.Equal(t, min(each, 2), own.OpsCount("step"), "a deleted row has two states before End")
		require.Equal(t, 1, own.OpsCount(stepper.OperationCRIsFinalizing))
		engine.SetResults(nil)
		run()
		require.Equal(t, min(each, 2), own.OpsCount("step"))
	}
	check(s, s.Run, 5)
	check(f, f.Run, 1)
}

func TestDisplayPathOfStatesLogsTheLastWalk(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	s := stepper.NewStepper(steps(func(e *stepper.Stepper[*row]) { e.AddGiveupError("", "checked", nil) }))
	s.Run()
	s.DisplayPathOfStates(log)
	s.DisplayPathOfStates(nil)
	require.Equal(t, `level=INFO msg="path of states" path="CRChecker > GiveupManager > End"`+"\n", out.String())
}

type (
	nodes = []stepper.Node
	to    = []stepper.State
)

// The error names every mistake of a graph.
func TestInvalidGraphsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes nodes
		want  []string
	}{
		{"nothing", nil, []string{`there is no state "End"`}},
		{"no name", nodes{{"", to{"End"}}, {"End", nil}}, []string{"state 0 has no name"}},
		{"no end", nodes{{"A", to{"A"}}}, []string{`there is no state "End"`}},
		{"unknown", nodes{{"A", to{"B", "C", "End"}}, {"End", nil}},
			[]string{`state "A" leads to "B", which is unknown`, `state "A" leads to "C", which is unknown`}},
		{"twice", nodes{{"A", to{"End", "End"}}, {"A", to{"End"}}, {"End", nil}},
			[]string{`state "A" is there twice`, `state "A" leads to "End" twice`}},
		{"after the end", nodes{{"A", to{"End"}}, {"End", to{"A"}}}, []string{`state "End" leads to ["A"]`}},
		{"not straight", nodes{{"A", to{"End", "ErrorManager"}}, {"ErrorManager", to{"GiveupManager"}}, {"GiveupManager", to{"End"}}, {"End", nil}},
			[]string{`state "ErrorManager" has no way straight on`}},
		{"unreachable", nodes{{"A", to{"End"}}, {"B", to{"End"}}, {"C", to{"B"}}, {"End", nil}},
			[]string{`state "B" is not reached from "A"`, `state "C" is not reached from "A"`}},
		{"no way", nodes{{"A", to{"B", "End"}}, {"B", to{"C"}}, {"C", to{"B"}}, {"End", nil}},
			[]string{`there is no way from state "B" to "End"`, `there is no way from state "C" to "End"`}},
		{"several", nodes{{"A", to{"X"}}, {"A", nil}},
			[]string{`state "A" is there twice`, `there is no state "End"`, `state "A" leads to "X", which is unknown`, `state "A" has no way straight on`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := stepper.NewGraph(c.nodes...)
			require.Nil(t, g)
			require.EqualError(t, err, "graph: "+strings.Join(c.want, "\n"))
		})
	}
}

// NewGraph accepts the nodes of the default graph. A graph does not share memory with its nodes: neither arguments
// nor results can change it.
func TestGraphsDoNotChange(t *testing.T) {
	nodes := stepper.DefaultGraph().Nodes()
	g := newGraph(t, nodes...)
	nodes[0].Next[0] = "B"
	g.Nodes()[0].Next[0] = "C"
	require.Equal(t, stepper.DefaultGraph().Nodes(), g.Nodes())
}

var update = flag.Bool("update", false, "rewrite the transcripts in testdata; commit only changes that you understand")

// testdata/paths.txt has the actions of a hook in each state, a separator, and the resulting path,
// calls, errors and outcome.
func TestPathsOfStates(t *testing.T) {
	const file = "testdata/paths.txt"
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var out []string
	names := map[string]bool{}
	for _, block := range strings.Split(strings.TrimSpace(string(raw)), "\n\n") {
		input, want, found := strings.Cut(block+"\n", "\n----\n")
		require.True(t, found, "no separator in %q", block)
		s := parseScript(t, input)
		require.False(t, names[s.name], "%q is there twice", s.name)
		names[s.name] = true
		got := s.play(t)
		out = append(out, input+"\n----\n"+got)
		if !*update {
			t.Run(s.name, func(t *testing.T) { require.Equal(t, strings.TrimSpace(want), got) })
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o644))
	}
	require.Greater(t, len(names), 15)
}

// script has the actions of a hook.
type script struct {
	name    string
	deleted bool
	actions map[stepper.State][]string
}

// parseScript reads "# name", "update" or "delete", and then lines of "State: action, action".
func parseScript(t *testing.T, input string) *script {
	s := &script{actions: map[stepper.State][]string{}}
	for _, line := range strings.Split(input, "\n") {
		state, actions, found := strings.Cut(line, ": ")
		switch {
		case strings.HasPrefix(line, "# "):
			s.name = strings.TrimPrefix(line, "# ")
		case line == "update", line == "delete":
			s.deleted = line == "delete"
		default:
			require.True(t, found, "cannot read %q", line)
			s.actions[stepper.State(state)] = strings.Split(actions, ", ")
		}
	}
	return s
}

// act runs one action: "done", "error TEXT", "giveup [TEXT]", each with an optional " in DURATION",
// or "finalize", "goto STATE" or "reset".
func act(t *testing.T, e *stepper.Stepper[*row], action string) {
	action, delay, _ := strings.Cut(action, " in ")
	var after time.Duration
	if delay != "" {
		var err error
		after, err = time.ParseDuration(delay)
		require.NoError(t, err)
	}
	verb, text, _ := strings.Cut(action, " ")
	switch verb {
	case "done":
		require.NoError(t, e.AddOp("", "done", nil, after))
	case "error":
		err := errors.New(text)
		require.Equal(t, err, e.AddOp("", "failed", err, after))
	case "giveup":
		var reason error
		if text != "" {
			reason = errors.New(text)
		}
		require.ErrorIs(t, e.AddGiveupError("", "checked", reason), stepper.ErrGiveUpReconciliation)
	case "finalize":
		e.AddOpSuccess("", stepper.OperationCRIsFinalizing)
	case "goto":
		_ = e.GoTo(stepper.State(text))
	case "reset":
		e.ResetAllResults()
	default:
		t.Fatalf("unknown action %q", action)
	}
}

// play walks once and returns the result as text.
func (s *script) play(t *testing.T) string {
	var entered []string
	hook := steps(func(e *stepper.Stepper[*row]) {
		entered = append(entered, string(e.GetState()))
		for _, action := range s.actions[e.GetState()] {
			act(t, e, action)
		}
	})
	e := stepper.NewStepper(hook)
	outcome := "done"
	if err := e.Reconcile(t.Context(), nil, 7, &row{ID: 1}, s.deleted); err != nil {
		outcome = fmt.Sprintf("%q", err)
	}
	giveup, err := e.ConsolidatedError()
	return fmt.Sprintf("path:    %s\nhook:    %s\nerrors:  %d, give-up %t, error %v\noutcome: %s",
		e.PathOfStates(), strings.Join(entered, " "), e.ErrorsCount(), giveup, err, outcome)
}
