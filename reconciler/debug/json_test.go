// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func decode[T any](t *testing.T, text string) T {
	var out T
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	return out
}

const snapshotJSON = `{
	"reconciler": "agent/v4", "id": {"module": "agent", "name": "v4", "table": "routes"},
	"at": "2026-01-02T03:04:05Z", "condition": "busy", "busy": "update of route-7 for 3s", "started": "2026-01-02T02:04:05Z",
	"objects": 123456, "initialized": false, "waiting_for_initializers": ["k8s-sync"],
	"states": [{"state": "ready", "count": 1}, {"state": "in flight", "count": 2}, {"state": "retry", "count": 3}, {"state": "blocked", "count": 4}],
	"lanes": [{"state": "fresh", "count": 1}], "unseen": 41, "failing": 5, "blocked": 6,
	"revision": 90, "observed": 80, "attempted": 70, "low_watermark": 60, "oldest_unapplied": "2026-01-02T03:02:35Z",
	"operations_per_second": 1234.5, "failures_per_second": 0.25, "rounds_per_second": 12,
	"errors": [{"class": "no route to host #", "count": 77, "last": "2026-01-02T03:04:03Z", "key": "route-7", "example": "no route to host 7"}],
	"breaker": "breaker open since 5s", "stuck": ["update of route-9"], "prune_failure": "list: permission denied",
	"next_prune": "2026-01-02T04:04:05Z", "settings": [{"name": "RoundSize", "value": "1000"}]
}`

const event0 = `{"round": 1, "started": "2026-01-02T03:04:05Z", ` + operationFields

const operation0 = `{` + operationFields

const operationFields = `"key": "route-0", "operation": "update", "cause": "change",
	"revision": 5, "attempt": 1, "result": "failed", "error": "no route", "note": "asked 10.0.0.1", "took": 1000000}`

func TestJSONOfEachPage(t *testing.T) {
	s := serve(t, nil, full())
	for path, want := range map[string]string{
		"": `{"reconcilers": [` + snapshotJSON + `]}`,
		"show?reconciler=agent/v4": `{"snapshot": ` + snapshotJSON + `, "timeline": [
			{"at": "2026-01-02T03:04:04Z", "pending": 1, "in_flight": 2, "failing": 3, "blocked": 4, "operations": 5, "failures": 6},
			{"at": "2026-01-02T03:04:05Z", "pending": 7, "in_flight": 0, "failing": 0, "blocked": 0, "operations": 0, "failures": 0}]}`,
		"objects?reconciler=agent/v4&limit=1": `{"objects": [{"key": "route-0", "status": "Error", "since": "2026-01-02T03:04:05Z",
			"error": "no route to host 0", "revision": 1, "attempts": 3, "state": "retry", "next": "2026-01-02T03:05:05Z"}], "next": "1"}`,
		"objects?reconciler=agent/v4&status=Done": `{"objects": []}`,
		"explain?reconciler=agent/v4&key=route-0": `{"reconciler": "agent/v4", "key": "route-0", "at": "2026-01-02T03:04:05Z",
			"state": "retry", "since": "2026-01-02T03:03:05Z", "why": "It failed.", "found": true, "status": "Error", "revision": 17,
			"attempts": 3, "last_attempt": "2026-01-02T03:04:04Z", "error": "no route", "wanted": "2026-01-02T03:03:05Z",
			"next": "2026-01-02T03:04:14Z", "blocked_on": "device eth0", "lane": "fresh", "ahead": 8, "group": "eth",
			"holder": "route-1", "notes": ["The breaker is open."], "events": [` + event0 + `]}`,
		"journal?reconciler=agent/v4": `{"events": [` + event0 + `, {"round": 2, "started": "2026-01-02T03:04:06Z", "key": "route-1",
			"operation": "delete", "cause": "retry", "revision": 6, "attempt": 2, "result": "done", "lost": true, "conflict": true, "took": 1234567}],
			"rounds": [{"round": 1, "reason": "start", "started": "2026-01-02T03:04:05Z", "took": 5000000, "changes": 1, "waited": 2,
			"refreshes": 3, "returned": 4, "operations": [` + operation0 + `], "written": 6, "lost": 7, "conflicts": 8, "commit_took": 1000000},
			{"round": 2, "reason": "prune", "started": "2026-01-02T03:04:06Z", "took": 0, "changes": 0, "waited": 0, "refreshes": 0,
			"returned": 0, "written": 0, "lost": 0, "conflicts": 0, "commit_took": 0,
			"prune": {"error": "broken pipe", "took": 1000000000, "listed": 9, "swept": 10}}]}`,
	} {
		assert.JSONEq(t, want, s.json(path), path)
	}
	assert.JSONEq(t, `{"reconcilers": []}`, serve(t, nil).json(""))
}

func TestFormatAndAcceptHeaderSelectJSON(t *testing.T) {
	s := serve(t, nil, full())
	for _, path := range []string{"", "show?reconciler=agent/v4", "objects?reconciler=agent/v4", "explain?reconciler=agent/v4&key=k", "journal?reconciler=agent/v4"} {
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
