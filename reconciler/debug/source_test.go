// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/filled"
	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// fakeSource is a source with a fixed answer, which records what is approved.
type fakeSource struct {
	shown    inspect.SourceSnapshot
	approved []string
}

func (s *fakeSource) Input() string                    { return s.shown.Name }
func (s *fakeSource) Snapshot() inspect.SourceSnapshot { return s.shown }
func (s *fakeSource) Loaded(context.Context) error     { return nil }
func (s *fakeSource) Approve(_ context.Context, set string) (int, error) {
	if set != s.shown.Held.Set {
		return 0, errors.New("the deletions that are held are not " + set)
	}
	s.approved = append(s.approved, set)
	return s.shown.Held.Rows, nil
}

func holding() *fakeSource {
	return &fakeSource{shown: inspect.SourceSnapshot{
		Name: "routes/files", Table: "routes", Connected: true, Since: epoch, LastEvent: epoch, Input: 7, Output: 12, Rows: 9,
		Rejected: 1, Problems: []string{"a.yaml:3:7: <no>"},
		Held: &inspect.HeldDeletions{Set: "5e2a", Rows: 3, Of: 9, Since: epoch, Examples: []string{"x", "y"}},
	}}
}

func serveSource(t *testing.T, opts []debug.Option, source inspect.Source) *server {
	registry := &inspect.Registry{}
	registry.AddSource(source)
	return &server{t, debug.New(registry, opts...)}
}

func TestPageShowsSourcesAndWhatTheyHold(t *testing.T) {
	s := serveSource(t, nil, holding())
	page := s.page("")
	assert.Contains(t, addresses(t, page), "source?source=routes%2Ffiles")
	assert.Contains(t, page, "a.yaml:3:7: &lt;no&gt;")
	page = s.page("source?source=routes/files")
	assert.Contains(t, page, "3 deletion(s) await approval")
	assert.Contains(t, page, "3 of 9 rows since 2026-01-02T03:04:05.000Z")
	assert.NotContains(t, page, "<form", "writes are not enabled")
	assert.Contains(t, addresses(t, page), "source?format=live&source=routes%2Ffiles")
	answer, _ := s.send("POST", "approve?source=routes/files&set=5e2a")
	assert.Equal(t, http.StatusForbidden, answer.StatusCode)
	answer, _ = s.send("GET", "source?source=none")
	assert.Equal(t, http.StatusNotFound, answer.StatusCode)
}

func TestButtonApprovesExactlyTheSetThatIsShown(t *testing.T) {
	f := holding()
	s := serveSource(t, writes, f)
	page := s.page("source?source=routes/files")
	assert.Contains(t, page, "Act on this source")
	assert.Contains(t, page, "Delete exactly these 3 rows")
	assert.Contains(t, addresses(t, page), "approve?set=5e2a&source=routes%2Ffiles")
	answer, body := s.send("POST", "approve?set=5e2b&source=routes%2Ffiles", with("Accept", "application/json"))
	assert.Equal(t, http.StatusConflict, answer.StatusCode)
	assert.JSONEq(t, `{"error": "the deletions that are held are not 5e2b"}`, body)
	for path, status := range map[string]int{
		"approve?source=routes/files":                              http.StatusBadRequest,
		"approve?source=routes/files&set=":                         http.StatusBadRequest,
		"approve?source=routes/files&set=5e2a&all=true":            http.StatusBadRequest,
		"approve?source=routes/files&set=5e2a&reconciler=agent/v4": http.StatusBadRequest,
		"approve?reconciler=agent/v4&all=true&set=5e2a":            http.StatusBadRequest,
		"approve?source=none&set=5e2a":                             http.StatusNotFound,
		"retry?source=routes/files&set=5e2a":                       http.StatusBadRequest,
	} {
		answer, _ := s.send("POST", path)
		assert.Equal(t, status, answer.StatusCode, path)
	}
	assert.Empty(t, f.approved)
	answer, _ = s.send("POST", "approve?set=5e2a&source=routes%2Ffiles", with("Accept", "text/html"))
	assert.Equal(t, http.StatusSeeOther, answer.StatusCode)
	assert.Contains(t, s.page(answer.Header.Get("Location")), `<p class="note" role="status">3 row(s) were deleted</p>`)
	answer, body = s.send("POST", "approve?set=5e2a&source=routes%2Ffiles", with("Accept", "application/json"))
	assert.Equal(t, http.StatusOK, answer.StatusCode)
	assert.JSONEq(t, `{"source": "routes/files", "action": "approve", "done": "3 row(s) were deleted", "objects": 3}`, body)
	assert.Equal(t, []string{"5e2a", "5e2a"}, f.approved)
	f.shown.Held = nil
	assert.NotContains(t, s.page("source?source=routes/files"), "<form")
	answer, body = s.send("POST", "approve?set=5e2a&source=routes%2Ffiles", with("Accept", "application/json"))
	assert.Equal(t, http.StatusConflict, answer.StatusCode)
	assert.JSONEq(t, `{"error": "no deletions are held, there is nothing to approve"}`, body)
}

func TestJSONOfSources(t *testing.T) {
	source := &fakeSource{shown: filled.Value[inspect.SourceSnapshot]()}
	s := serveSource(t, nil, source)
	require.JSONEq(t, `{"reconcilers": [], "sources": [`+decoded(t, s, source)+`]}`, s.json(""))
}

// decoded returns the JSON of the page of a source, of which each field has a name.
func decoded(t *testing.T, s *server, source inspect.Source) string {
	got := decode[map[string]any](t, s.json("source?source="+url.QueryEscape(source.Input())))
	for _, field := range []string{
		"name", "table", "connected", "since", "error", "last_event", "input", "output", "rows", "rejected", "problems", "held", "running",
	} {
		require.Contains(t, got, field)
	}
	require.Len(t, got, 13)
	for _, field := range []string{"set", "rows", "of", "since", "examples"} {
		require.Contains(t, got["held"], field)
	}
	return s.json("source?source=" + url.QueryEscape(source.Input()))
}
