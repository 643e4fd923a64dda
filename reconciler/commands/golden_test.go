// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/filled"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// filledFake is a reconciler whose answers have no zero field.
type filledFake struct {
	*fake
	explanation inspect.Explanation
	snapshot    inspect.Snapshot
}

func newFilledFake() *filledFake {
	f := &filledFake{routes(), filled.Value[inspect.Explanation](), filled.Value[inspect.Snapshot]()}
	f.id = f.snapshot.ID
	f.rounds = filled.Rounds()
	return f
}

func (f *filledFake) Explain(context.Context, string) inspect.Explanation { return f.explanation }
func (f *filledFake) Snapshot(context.Context) inspect.Snapshot           { return f.snapshot }

func TestCommandJSONEqualsTheGoldenFiles(t *testing.T) {
	f := newFilledFake()
	s := newShell(t, f)
	name := "'" + f.id.String() + "'"
	answer := func(line string) []byte {
		t.Helper()
		out, err := s.run(line + " --format=json")
		require.NoError(t, err)
		return []byte(out)
	}
	filled.RequireGolden(t, "explanation", answer("reconciler/explain "+name+" x"))
	filled.RequireGolden(t, "snapshot", answer("reconciler/show "+name))
	var all []json.RawMessage
	require.NoError(t, json.Unmarshal(answer("reconciler"), &all))
	filled.RequireGolden(t, "snapshot", all[0])

	var journals []struct{ Rounds []json.RawMessage }
	require.NoError(t, json.Unmarshal(answer("reconciler/journal --rounds"), &journals))
	filled.RequireGolden(t, "round", journals[0].Rounds[0])
	filled.RequireGolden(t, "operation", filled.OperationOf(t, journals[0].Rounds[1]))
}
