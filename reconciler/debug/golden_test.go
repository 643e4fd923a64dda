// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"context"
	"encoding/json"
	"net/url"
	"testing"

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
	f := &filledFake{newFake("v4"), filled.Value[inspect.Explanation](), filled.Value[inspect.Snapshot]()}
	f.id = f.snapshot.ID
	f.rounds = filled.Rounds()
	return f
}

func (f *filledFake) Explain(context.Context, string) inspect.Explanation { return f.explanation }
func (f *filledFake) Snapshot(context.Context) inspect.Snapshot           { return f.snapshot }

func TestPageJSONEqualsTheGoldenFiles(t *testing.T) {
	f := newFilledFake()
	s := serve(t, nil, f)
	of := "?reconciler=" + url.QueryEscape(f.id.String())
	filled.RequireGolden(t, "explanation", []byte(s.json("explain"+of+"&key=x")))
	filled.RequireGolden(t, "snapshot", decode[map[string]json.RawMessage](t, s.json("show"+of))["snapshot"])
	filled.RequireGolden(t, "snapshot", decode[map[string][]json.RawMessage](t, s.json(""))["reconcilers"][0])

	rounds := decode[struct{ Rounds []json.RawMessage }](t, s.json("journal"+of)).Rounds
	filled.RequireGolden(t, "round", rounds[0])
	filled.RequireGolden(t, "operation", filled.OperationOf(t, rounds[1]))
}
