// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/internal/tests/filled"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func decode[T any](t *testing.T, text string) T {
	var out T
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	return out
}

func TestFormatAndAcceptHeaderSelectJSON(t *testing.T) {
	s := serve(t, nil, full())
	for _, path := range []string{"", "show?reconciler=agent/v4", "objects?reconciler=agent/v4", "explain?reconciler=agent/v4&key=k", "journal?reconciler=agent/v4", "plan?reconciler=agent/v4"} {
		more := path + "?format="
		if strings.Contains(path, "?") {
			more = path + "&format="
		}
		for _, c := range []struct{ accept, path, want string }{
			{"", path, "text/html"},
			{"*/*", path, "text/html"},
			{"text/html,application/json", path, "text/html"},
			{"Application/JSON; q=0.9", path, "application/json"},
			{"application/json", more + "html", "text/html"},
			{"text/html", more + "json", "application/json"},
		} {
			answer, _ := s.send("GET", c.path, with("Accept", c.accept))
			assert.Equal(t, http.StatusOK, answer.StatusCode)
			assert.Contains(t, answer.Header.Get("Content-Type"), c.want, "%s with %q", c.path, c.accept)
			assert.Equal(t, "Accept", answer.Header.Get("Vary"))
		}
	}
}

// The types of package inspect are in the golden files.
func TestJSONOfLists(t *testing.T) {
	f := full()
	f.History = f.History[:1]
	s := serve(t, nil, f)
	for path, want := range map[string]string{
		"objects?reconciler=agent/v4&limit=1": `{"objects": [{"key": "route-0", "status": "Error",
			"since": "2026-01-02T03:04:05Z", "error": "no route to host 0", "revision": 1, "attempts": 3, "state": "retry",
			"next": "2026-01-02T03:05:05Z"}], "next": "1"}`,
		"objects?reconciler=agent/v4&status=Done": `{"objects": []}`,
		"journal?reconciler=agent/v4&key=route-0": `[{"reconciler": "agent/v4", "events": [{"round": 1, "started": "2026-01-02T03:04:05Z",
			"key": "route-0", "operation": "update", "cause": "change", "revision": 5, "attempt": 1, "result": "failed", "error": "no route",
			"note": "asked 10.0.0.1", "took": 1000000}]}]`,
	} {
		assert.JSONEq(t, want, s.json(path), path)
	}
	assert.JSONEq(t, `{"reconcilers": []}`, serve(t, nil).json(""))
}

// filledFake is a reconciler whose answers have no zero field.
func filledFake() *fake.Controller {
	f := newFake("v4")
	f.Explanation, f.Shown, f.Passed = filled.Value[inspect.Explanation](), filled.Value[inspect.Snapshot](), filled.Rounds()
	f.Identity, f.Planned = f.Shown.ID, filled.Value[inspect.Plan]()
	return f
}

func TestPageJSONEqualsTheGoldenFiles(t *testing.T) {
	f := filledFake()
	s := serve(t, nil, f)
	of := "?reconciler=" + url.QueryEscape(f.Identity.String())
	filled.RequireGolden(t, "explanation", []byte(s.json("explain"+of+"&key=x")))
	filled.RequireGolden(t, "snapshot", []byte(s.json("show"+of)))
	filled.RequireGolden(t, "snapshot", decode[map[string][]json.RawMessage](t, s.json(""))["reconcilers"][0])

	filled.RequireGolden(t, "plan", []byte(s.json("plan"+of)))
	rounds := decode[[]struct{ Rounds []json.RawMessage }](t, s.json("journal"+of+"&rounds=true"))[0].Rounds
	filled.RequireGolden(t, "round", rounds[0])
	filled.RequireGolden(t, "operation", filled.OperationOf(t, rounds[1]))
}
