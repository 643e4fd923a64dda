// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/internal/tests/filled"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// filledFake is a reconciler whose answers have no zero field.
func filledFake() *fake.Controller {
	f := newFake("v4")
	f.Explanation, f.Shown, f.Rounds = filled.Value[inspect.Explanation](), filled.Value[inspect.Snapshot](), filled.Rounds()
	f.Identity = f.Shown.ID
	return f
}

func TestPageJSONEqualsTheGoldenFiles(t *testing.T) {
	f := filledFake()
	s := serve(t, nil, f)
	of := "?reconciler=" + url.QueryEscape(f.Identity.String())
	filled.RequireGolden(t, "explanation", []byte(s.json("explain"+of+"&key=x")))
	filled.RequireGolden(t, "snapshot", decode[map[string]json.RawMessage](t, s.json("show"+of))["snapshot"])
	filled.RequireGolden(t, "snapshot", decode[map[string][]json.RawMessage](t, s.json(""))["reconcilers"][0])

	rounds := decode[struct{ Rounds []json.RawMessage }](t, s.json("journal"+of)).Rounds
	filled.RequireGolden(t, "round", rounds[0])
	filled.RequireGolden(t, "operation", filled.OperationOf(t, rounds[1]))
}
