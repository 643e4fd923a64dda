// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/stepper"
)

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

// The default graph is accepted by NewGraph and has all states.
func TestDefaultGraphIsValid(t *testing.T) {
	g, err := stepper.NewGraph(stepper.DefaultGraph().Nodes()...)
	require.NoError(t, err)
	require.Equal(t, stepper.DefaultGraph().Nodes(), g.Nodes())
	require.Equal(t, []stepper.State{stepper.CRChecker, stepper.CRFinalizer, stepper.ObjectsGetter, stepper.Mutator, stepper.Updater,
		stepper.ErrorManager, stepper.SuccessManager, stepper.GiveupManager, stepper.End}, statesOf(g))
}

// A graph does not share memory with its nodes: neither arguments nor results can change it.
func TestGraphsDoNotChange(t *testing.T) {
	next := to{"End"}
	g, err := stepper.NewGraph(stepper.Node{State: "A", Next: next}, stepper.Node{State: "End"})
	require.NoError(t, err)
	next[0] = "B"
	g.Nodes()[0].Next[0] = "C"
	require.Equal(t, to{"End"}, g.Nodes()[0].Next)
}

// statesOf returns the states of a graph in order.
func statesOf(g *stepper.Graph) (states []stepper.State) {
	for _, n := range g.Nodes() {
		states = append(states, n.State)
	}
	return states
}

func TestRenderingsOfGraphs(t *testing.T) {
	hostile, err := stepper.NewGraph(
		stepper.Node{State: "a \"b\" \\ <c> #1\n`d`", Next: to{stepper.End, stepper.GiveupManager}},
		stepper.Node{State: stepper.GiveupManager, Next: to{stepper.End}}, stepper.Node{State: stepper.End})
	require.NoError(t, err)
	for file, got := range map[string]string{
		"default.dot": stepper.DefaultGraph().Graphviz(), "default.mmd": stepper.DefaultGraph().Mermaid(),
		"hostile.dot": hostile.Graphviz(), "hostile.mmd": hostile.Mermaid(),
	} {
		if *update {
			require.NoError(t, os.WriteFile("testdata/"+file, []byte(got), 0o644))
		}
		want, err := os.ReadFile("testdata/" + file)
		require.NoError(t, err)
		require.Equal(t, string(want), got, file)
	}
}
