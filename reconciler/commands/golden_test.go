// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/internal/tests/filled"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// filledFake is a reconciler whose answers have no zero field.
func filledFake() *fake.Controller {
	f := routes()
	f.Explanation, f.Shown, f.Rounds = filled.Value[inspect.Explanation](), filled.Value[inspect.Snapshot](), filled.Rounds()
	f.Identity = f.Shown.ID
	return f
}

func TestCommandJSONEqualsTheGoldenFiles(t *testing.T) {
	f := filledFake()
	s := newShell(t, f)
	name := "'" + f.Identity.String() + "'"
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
