// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// full returns a reconciler with values in all parts of the pages.
func full() *fake.Controller {
	f := newFake("v4")
	f.Shown = inspect.Snapshot{
		At: epoch, Condition: "busy", Busy: "update of route-7 for 3s", Started: epoch.Add(-time.Hour),
		Objects: 123456, Waiting: []string{"k8s-sync"}, Unseen: 41,
		States: []metrics.StateCount{{State: "ready", Count: 1}, {State: "in flight", Count: 2}, {State: "retry", Count: 3}, {State: "blocked", Count: 4}},
		Lanes:  []metrics.StateCount{{State: "fresh", Count: 1}}, Failing: 5, Blocked: 6,
		Revision: 90, Observed: 80, Attempted: 70, LowWatermark: 60, OldestUnapplied: epoch.Add(-90 * time.Second),
		Errors:  []inspect.ErrorClass{{Class: "no route to host #", Count: 77, Last: epoch.Add(-2 * time.Second), Key: "route-7", Example: "no route to host 7"}},
		Breaker: "breaker open since 5s", Stuck: []string{"update of route-9"}, PruneFailure: "list: permission denied", AwaitsApproval: true,
		AwaitsListing: true, Resync: &inspect.Resync{
			Started: epoch, Took: time.Second, Listed: 31, Equal: 28, Different: 1, Orphan: 2,
			Differences: []inspect.Difference{{Key: "route-3", Kind: inspect.Different, Diff: "via 10.0.0.1, not 10.0.0.2"}},
		},
		NextPrune: epoch.Add(time.Hour), Settings: []inspect.SettingText{{Name: "RoundSize", Value: "1000"}},
	}
	f.Explanation = inspect.Explanation{
		Reconciler: "agent/v4", At: epoch, State: inspect.StateRetry, Since: epoch.Add(-time.Minute), Why: "It failed.",
		Found: true, Status: "Error", Revision: 17, Attempts: 3, LastAttempt: epoch.Add(-time.Second), Error: "no route",
		Wanted: epoch.Add(-time.Minute), Next: epoch.Add(9 * time.Second), BlockedOn: "device eth0", Lane: "fresh", Ahead: 8,
		Group: "eth", Holder: "route-1", Notes: []string{"The breaker is open."},
	}
	f.Planned = inspect.Plan{Reconciler: "agent/v4", Reapplied: 4, Resync: inspect.Resync{
		Started: epoch, Took: time.Second, Listed: 31, Equal: 28, Different: 1, Orphan: 2,
		Differences: []inspect.Difference{{Key: "route-3", Kind: inspect.Different, Status: "Pending", Diff: "via 10.0.0.1, not 10.0.0.2"}},
	}}
	f.Shown.Lists = true
	f.Lines = failing(3)
	f.History = []inspect.Operation{
		{Round: 1, Started: epoch, Key: "route-0", Op: "update", Cause: inspect.CauseChange, Revision: 5, Attempt: 1, Result: "failed", Error: "no route", Note: "asked 10.0.0.1", Took: time.Millisecond},
		{Round: 2, Started: epoch.Add(time.Second), Key: "route-1", Op: "delete", Cause: inspect.CauseRetry, Revision: 6, Attempt: 2, Result: "done", Lost: true, Conflict: true, Took: 1234567},
	}
	f.Explanation.Operations = f.History[:1]
	f.Passed = []inspect.Round{
		{Sequence: 1, Reason: inspect.ReasonStart, Started: epoch, Took: 5 * time.Millisecond, Changes: 1, Waited: 2, Refreshes: 3, Returned: 4,
			Operations: []inspect.Operation{{Key: "route-0"}}, Written: 6, Lost: 7, Conflicts: 8, CommitTook: time.Millisecond},
		{Sequence: 2, Reason: inspect.ReasonPrune, Started: epoch.Add(time.Second), Prune: &inspect.Prune{Error: "broken pipe", Took: time.Second}},
	}
	return f
}

func TestPagesHaveTheTextsOfTheCommands(t *testing.T) {
	f := full()
	s := serve(t, nil, f, newFake("v6"))
	var shown []string
	for _, report := range []string{f.Snapshot(t.Context()).String(), f.Explain(t.Context(), "route-0").String()} {
		for line := range strings.Lines(report) {
			shown = append(shown, regexp.MustCompile(`   +`).Split(strings.TrimSpace(line), -1)...)
		}
	}
	both := html.UnescapeString(s.page("show?reconciler=agent/v4") + s.page("explain?reconciler=agent/v4&key=route-0"))
	for _, part := range shown {
		assert.Contains(t, both, part)
	}
	for path, texts := range map[string][]string{
		"": {
			"agent/v4", "busy: 5 failing", "123456", ">41<", ">5<", ">6<", "agent/v6", "running",
		},
		"show?reconciler=agent/v4": {
			`class="bad">agent/v4: busy: 5 failing`, "waits for k8s-sync", "breaker open since 5s", `class="bad">5<`,
			"31 listed in 1 s: 28 equal, 1 different, 0 missing, 2 orphan", "route-3", "via 10.0.0.1, not 10.0.0.2",
			`<a href="plan?reconciler=agent%2Fv4">What a resync would do now (lists the target)</a>`,
		},
		"plan?reconciler=agent/v4": {
			`class="work">agent/v4: 7 operation(s) to do: 1 different, 2 orphan, 4 equal and not Done; 28 equal<`, "route-3", ">Pending<",
			"via 10.0.0.1, not 10.0.0.2", "2 further difference(s)", "31 object(s) in 1 s",
		},
		"objects?reconciler=agent/v4&status=error": {
			"route-2", "no route to host 2", `class="bad">retry<`, "Error", ">3<", `aria-current="true">Error<`,
		},
		"explain?reconciler=agent/v4&key=route-0": {
			`class="bad">retry: It failed.<`, "The breaker is open.", "asked 10.0.0.1",
		},
		"journal?reconciler=agent/v4": {
			"asked 10.0.0.1", "done, lost, merged", ">retry<", "1.23 ms",
		},
		"journal?reconciler=agent/v4&rounds=true":         {"failed: broken pipe", `aria-current="true">Rounds<`},
		"journal?reconciler=agent/v4&first-failures=true": {"route-0", `aria-current="true">First failures<`},
	} {
		page := s.page(path)
		for _, text := range texts {
			assert.Contains(t, page, text, path)
		}
	}
	assert.Contains(t, (&server{t, debug.New(nil)}).page(""), "no reconcilers")

	journal := s.page("journal?reconciler=agent/v4")
	assert.Less(t, strings.Index(journal, "03:04:06.000"), strings.Index(journal, "03:04:05.000"), "the latest is first")
	assert.Contains(t, s.page("journal?reconciler=agent/v4&key=route-0"), "Operations on route-0, the latest first")
}

func TestSinceAndLimitBoundTheJournal(t *testing.T) {
	s := serve(t, nil, full())
	latest := s.json("journal?reconciler=agent/v4&limit=1")
	assert.Contains(t, latest, "route-1")
	assert.NotContains(t, latest, "route-0")
	assert.NotContains(t, s.json("journal?reconciler=agent/v4&rounds=true&limit=1"), `"reason":"start"`)
	assert.Equal(t, latest, s.json("journal?reconciler=agent/v4&since=2026-01-02T03:04:06Z"))
	assert.JSONEq(t, `[{"reconciler": "agent/v4"}]`, s.json("journal?reconciler=agent/v4&since=5m"))

	f := full()
	for range 100 {
		f.History = append(f.History, inspect.Operation{Started: epoch, Key: "route-2", Result: inspect.ResultDone})
	}
	s = serve(t, nil, f)
	assert.NotContains(t, s.page("journal?reconciler=agent/v4"), "route-0")
	assert.Contains(t, addresses(t, s.page("journal?reconciler=agent/v4")), "journal?limit=0&reconciler=agent%2Fv4")
	assert.Contains(t, s.page("journal?reconciler=agent/v4&limit=0"), "route-0")
}

func TestObjectPagesLinkToTheNextPage(t *testing.T) {
	f := newFake("v4")
	f.Lines = failing(120)
	s := serve(t, nil, f)
	seen, pages := map[string]bool{}, 0
	for path := "objects?reconciler=agent%2Fv4&status=Error"; path != ""; pages++ {
		page := s.page(path)
		path = ""
		for _, ref := range addresses(t, page) {
			switch u, _ := url.Parse(ref); {
			case u.Path == "explain" && u.Query().Has("key"):
				seen[u.Query().Get("key")] = true
			case u.Query().Has("after"):
				path = ref
			}
		}
	}
	assert.Len(t, seen, 120)
	assert.Equal(t, 3, pages)
}

func TestInvalidQueriesAreRefused(t *testing.T) {
	f := full()
	s := serve(t, nil, f, &fake.Controller{Identity: inspect.ID{Module: "other", Name: "v4", Table: "rules"}})
	for path, want := range map[string]int{
		"show":                                    http.StatusBadRequest,
		"show?reconciler=%3Cb%3E":                 http.StatusNotFound,
		"show?reconciler=agent/v4&number=2":       http.StatusNotFound,
		"show?reconciler=agent/v4&number=1":       http.StatusOK,
		"show?reconciler=unknown&number=1":        http.StatusNotFound,
		"show?reconciler=v4":                      http.StatusBadRequest, // ambiguous
		"show?reconciler=routes":                  http.StatusOK,
		"explain?reconciler=agent/v4":             http.StatusBadRequest,
		"objects?reconciler=agent/v4&limit=-1":    http.StatusBadRequest,
		"objects?reconciler=agent/v4&limit=1001":  http.StatusOK, // as many as a page has
		"objects?reconciler=agent/v4&limit=x":     http.StatusBadRequest,
		"objects?reconciler=agent/v4&status=none": http.StatusBadRequest,
		"journal?reconciler=agent/v4&since=-5m":   http.StatusBadRequest,
		"journal?reconciler=agent/v4&since=ago":   http.StatusBadRequest,
		"nothing":                                 http.StatusNotFound,
	} {
		answer, body := s.send("GET", path, with("Accept", "application/json"))
		assert.Equal(t, want, answer.StatusCode, path)
		if want != http.StatusOK {
			assert.Regexp(t, `^\{"error":".+"\}\n$`, body, path)
			assert.Equal(t, "application/json", answer.Header.Get("Content-Type"), path)
			_, body = s.send("GET", path, with("Accept", "text/html"))
			assert.NotContains(t, body, "<b>", path)
		}
	}
	answer, body := s.send("GET", "show?reconciler=routes&format=xml")
	assert.Equal(t, http.StatusBadRequest, answer.StatusCode)
	assert.Contains(t, body, "format is &#34;xml&#34;")

	f.ListErr = errors.New("the table is gone")
	answer, body = s.send("GET", "objects?reconciler=agent/v4")
	assert.Equal(t, http.StatusConflict, answer.StatusCode)
	assert.Contains(t, body, "the table is gone")
}

func TestReconcilersWithTheSameNameAreDistinguished(t *testing.T) {
	one, two, three := newFake("v4"), newFake("v4"), newFake("v4")
	two.Identity.Table, three.Identity.Table = "rules", "rules"
	all := []*fake.Controller{one, two, three}
	s := serve(t, writes, one, two, three)
	for i, ref := range rows(t, s.page("")) {
		for _, act := range addresses(t, s.page(ref)) {
			if strings.HasPrefix(act, "pause?") {
				answer, body := s.send("POST", act)
				require.Equal(t, http.StatusSeeOther, answer.StatusCode, body)
			}
		}
		for j, f := range all {
			if j == i {
				assert.Equal(t, []string{"pause"}, f.Acts(), "reconciler %d", j)
			} else {
				assert.Empty(t, f.Acts(), "reconciler %d for %d", j, i)
			}
		}
	}
}

// rows returns the links of an overview to the reconcilers.
func rows(t *testing.T, page string) []string {
	var out []string
	for _, ref := range addresses(t, page) {
		if strings.HasPrefix(ref, "show?") {
			out = append(out, ref)
		}
	}
	require.NotEmpty(t, out)
	return out
}

func TestLivePartsArePartsOfThePage(t *testing.T) {
	f := full()
	s := serve(t, nil, f)
	for _, path := range []string{"", "show?reconciler=agent/v4", "explain?reconciler=agent/v4&key=route-0"} {
		page := s.page(path)
		source := ""
		for _, ref := range addresses(t, page) {
			if strings.Contains(ref, "format=live") {
				source = ref
			}
		}
		require.NotEmpty(t, source, path)
		assert.NotContains(t, serve(t, nil, newFake("v4")).json(source), "null", "the script cannot read it")
		live := decode[struct {
			Cells map[string]struct{ Text string }
			Rows  map[string][][]struct{ Text string }
		}](t, s.json(source))
		for id, c := range live.Cells {
			require.Contains(t, page, `id="`+id+`"`)
			if id != "as-of" {
				assert.Contains(t, html.UnescapeString(page), c.Text, id)
			}
		}
		for id, rows := range live.Rows {
			require.Contains(t, page, `id="`+id+`"`)
			for _, row := range rows {
				for _, c := range row {
					assert.Contains(t, html.UnescapeString(page), c.Text)
				}
			}
		}
	}
}

func TestListsCutTheirTextsAndTheRestHasThemInFull(t *testing.T) {
	// large is an error text that is several times as long in JSON.
	large := strings.Repeat("<&", 8<<10)
	f := full()
	f.Lines = failing(200)
	f.History, f.Passed, f.Shown.Errors = nil, nil, nil
	f.Shown.PruneFailure, f.Shown.Breaker, f.Explanation.Error = large, large, large
	for i := range 200 {
		at := epoch.Add(time.Duration(i) * time.Second)
		f.Lines[i].Error = large
		f.History = append(f.History, inspect.Operation{Round: uint64(i), Started: at, Key: "a", Result: inspect.ResultFailed, Error: large})
		f.Passed = append(f.Passed, inspect.Round{Sequence: uint64(i), Started: at, Prune: &inspect.Prune{Error: large}})
	}
	for i := range 32 {
		f.Shown.Errors = append(f.Shown.Errors, inspect.ErrorClass{Class: fmt.Sprint(i), Key: "k", Example: large})
	}
	s := serve(t, nil, f)
	for _, path := range []string{
		"", "objects?reconciler=agent/v4&limit=1000", "journal?reconciler=agent/v4&limit=0", "journal?reconciler=agent/v4&rounds=true&limit=0",
	} {
		assert.Less(t, len(s.json(path)), 1<<20, path)
		assert.Less(t, len(s.page(path)), 1<<20, path)
	}
	require.Greater(t, len(s.json("show?reconciler=agent/v4")), 32*len(large))
	require.Contains(t, html.UnescapeString(s.page("explain?reconciler=agent/v4&key=a")), large)
	require.Equal(t, large, f.Shown.Errors[0].Example, "a list cuts copies")
	require.Equal(t, large, f.Passed[0].Prune.Error, "a list cuts copies")
}
