// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package filled

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Rounds returns two rounds: a filled one, and one that has only an operation, a filled one. The operations
// do not repeat their round.
func Rounds() []inspect.Round {
	rounds := []inspect.Round{Value[inspect.Round](), {Operations: []inspect.Operation{Value[inspect.Operation]()}}}
	for _, r := range rounds {
		for i := range r.Operations {
			r.Operations[i].Round, r.Operations[i].Started = 0, time.Time{}
		}
	}
	return rounds
}

// OperationOf returns the first operation of a round, both as JSON.
func OperationOf(t testing.TB, round json.RawMessage) json.RawMessage {
	t.Helper()
	var r struct {
		Operations []json.RawMessage `json:"operations"`
	}
	require.NoError(t, json.Unmarshal(round, &r))
	require.NotEmpty(t, r.Operations)
	return r.Operations[0]
}

// RequireGolden requires that JSON equals the golden file testdata/name.json of package inspect. It is for
// tests in folders beside that package.
func RequireGolden(t testing.TB, name string, got json.RawMessage) {
	t.Helper()
	want, err := os.ReadFile("../inspect/testdata/" + name + ".json")
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got), name)
}
