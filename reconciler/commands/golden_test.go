// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/filled"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// filledFake is a reconciler that answers with values in which no field is zero.
type filledFake struct {
	*fake
	explanation inspect.Explanation
	snapshot    inspect.Snapshot
}

func newFilledFake() *filledFake {
	f := &filledFake{routes(), filled.Value[inspect.Explanation](), filled.Value[inspect.Snapshot]()}
	f.id = f.snapshot.ID
	f.rounds = []inspect.Round{filled.Value[inspect.Round](), {Operations: []inspect.Operation{filled.Value[inspect.Operation]()}}}
	return f
}

func (f *filledFake) Explain(context.Context, string) inspect.Explanation { return f.explanation }
func (f *filledFake) Snapshot(context.Context) inspect.Snapshot           { return f.snapshot }

// requireGolden compares JSON with a golden file of package inspect.
func requireGolden(t *testing.T, name string, got json.RawMessage) {
	t.Helper()
	want, err := os.ReadFile("../inspect/testdata/" + name + ".json")
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got), name)
}

type goldenRound struct {
	Operations []json.RawMessage `json:"operations"`
}

func TestCommandsAnswerWithTheJSONOfTheTypes(t *testing.T) {
	f := newFilledFake()
	s := newShell(t, f)
	name := "'" + f.id.String() + "'"
	answer := func(line string) []byte {
		t.Helper()
		out, err := s.run(line + " --format=json")
		require.NoError(t, err)
		return []byte(out)
	}
	requireGolden(t, "explanation", answer("reconciler/explain "+name+" x"))
	requireGolden(t, "snapshot", answer("reconciler/show "+name))
	var all []json.RawMessage
	require.NoError(t, json.Unmarshal(answer("reconciler"), &all))
	requireGolden(t, "snapshot", all[0])

	var journals []struct{ Rounds []json.RawMessage }
	require.NoError(t, json.Unmarshal(answer("reconciler/journal --rounds"), &journals))
	requireGolden(t, "round", journals[0].Rounds[0])
	var second goldenRound
	require.NoError(t, json.Unmarshal(journals[0].Rounds[1], &second))
	requireGolden(t, "operation", second.Operations[0])
}
