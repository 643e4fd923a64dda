// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/stepper"
)

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
	for _, name := range []string{"success", "error", "give-up", "give-up with error", "error in ErrorManager", "finalizing",
		"error while finalizing", "give-up in SuccessManager", "give-up before finalizing"} {
		require.True(t, names[name], "the transcript of %q is missing", name)
	}
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
	hook := stepper.StepperEngineHookFunc[*row](func(e *stepper.Stepper[*row]) {
		entered = append(entered, string(e.GetState()))
		for _, action := range s.actions[e.GetState()] {
			act(t, e, action)
		}
	})
	e := stepper.NewStepper(hook)
	outcome := e.Reconcile(context.Background(), nil, 7, &row{ID: 1}, s.deleted)
	giveup, err := e.ConsolidatedError()
	return fmt.Sprintf("path:    %s\nhook:    %s\nerrors:  %d, give-up %t, error %v\noutcome: %s",
		e.PathOfStates(), strings.Join(entered, " "), e.ErrorsCount(), giveup, err, outcomeText(outcome))
}

// outcomeText returns an outcome on one line.
func outcomeText(err error) string {
	if err == nil {
		return "done"
	}
	return fmt.Sprintf("%q", err)
}
