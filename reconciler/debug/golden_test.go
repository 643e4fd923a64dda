// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"context"
	"encoding/json"
	"net/url"
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
	f := &filledFake{newFake("v4"), filled.Value[inspect.Explanation](), filled.Value[inspect.Snapshot]()}
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

func TestPagesAnswerWithTheJSONOfTheTypes(t *testing.T) {
	f := newFilledFake()
	s := serve(t, nil, f)
	of := "?reconciler=" + url.QueryEscape(f.id.String())
	requireGolden(t, "explanation", []byte(s.json("explain"+of+"&key=x")))
	requireGolden(t, "snapshot", decode[map[string]json.RawMessage](t, s.json("show"+of))["snapshot"])
	requireGolden(t, "snapshot", decode[map[string][]json.RawMessage](t, s.json(""))["reconcilers"][0])

	rounds := decode[struct{ Rounds []json.RawMessage }](t, s.json("journal"+of)).Rounds
	requireGolden(t, "round", rounds[0])
	requireGolden(t, "operation", decode[goldenRound](t, string(rounds[1])).Operations[0])
}
