// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch is the time of the fakes' answers.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newFake(name string) *fake.Controller {
	return &fake.Controller{
		Identity:    inspect.ID{Module: "agent", Name: name, Table: "routes"},
		Shown:       inspect.Snapshot{At: epoch, Condition: "running", Initialized: true},
		Explanation: inspect.Explanation{Reconciler: "agent/" + name, At: epoch, State: inspect.StateDone},
		Approves:    true,
	}
}

// server serves the page at /debug/.
type server struct {
	*testing.T
	http.Handler
}

// serve serves reconcilers that are added to the registry after the page was made.
func serve(t *testing.T, opts []debug.Option, all ...inspect.Controller) *server {
	registry := &inspect.Registry{}
	s := &server{t, debug.New(registry, opts...)}
	for _, i := range all {
		registry.Add(i)
	}
	return s
}

var writes = []debug.Option{debug.WithWrites()}

// send sends a request and returns the answer.
func (s *server) send(method, path string, change ...func(*http.Request)) (*http.Response, string) {
	s.Helper()
	r := httptest.NewRequest(method, "http://here.test/debug/"+path, nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	require.NoError(s, err)
	return w.Result(), string(body)
}

// page returns a page as HTML. The test fails if the status is not 200.
func (s *server) page(path string) string {
	s.Helper()
	answer, body := s.send("GET", path, with("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"))
	require.Equal(s, http.StatusOK, answer.StatusCode, "%s: %s", path, body)
	require.Equal(s, "text/html; charset=utf-8", answer.Header.Get("Content-Type"), path)
	return body
}

// json returns a page as JSON. The test fails if the status is not 200.
func (s *server) json(path string) string {
	s.Helper()
	answer, body := s.send("GET", path, with("Accept", "application/json"))
	require.Equal(s, http.StatusOK, answer.StatusCode, "%s: %s", path, body)
	require.Equal(s, "application/json", answer.Header.Get("Content-Type"), path)
	require.True(s, json.Valid([]byte(body)), path)
	return body
}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

var address = regexp.MustCompile(`(?:href|src|action|data-live)="([^"]*)"`)

// addresses returns the addresses in a page, as a browser reads them. All of them must be relative.
func addresses(t *testing.T, page string) []string {
	var out []string
	for _, m := range address.FindAllStringSubmatch(page, -1) {
		ref := html.UnescapeString(m[1])
		u, err := url.Parse(ref)
		require.NoError(t, err)
		require.False(t, u.IsAbs() || u.Host != "" || strings.HasPrefix(u.Path, "/"), "%q is not relative", ref)
		out = append(out, ref)
	}
	return out
}

// failing returns the lines of n failing objects.
func failing(n int) []inspect.ObjectLine {
	out := make([]inspect.ObjectLine, n)
	for i := range out {
		out[i] = inspect.ObjectLine{
			Key: fmt.Sprintf("route-%d", i), Status: "Error", Since: epoch, Revision: uint64(i + 1),
			Error: fmt.Sprintf("no route to host %d", i), Attempts: 3, State: inspect.StateRetry, Next: epoch.Add(time.Minute),
		}
	}
	return out
}
