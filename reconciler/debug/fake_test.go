// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a reconciler with fixed answers, which records the calls. The embedded interface is nil, so a
// method that the page must not call panics.
type fake struct {
	inspect.Loop
	id               inspect.ID
	snapshot         inspect.Snapshot
	explanation      inspect.Explanation
	objects          []inspect.ObjectLine
	listError        error
	events           []inspect.Event
	rounds           []inspect.Round
	samples          []inspect.Sample
	actError         error
	nothingToApprove bool

	mu    sync.Mutex
	acts  []string
	asked []string
}

func (f *fake) did(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acts = append(f.acts, fmt.Sprintf(format, args...))
}

// take returns the actions since its last call.
func (f *fake) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	acts := f.acts
	f.acts = nil
	return acts
}

func (f *fake) ask(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, key)
}

func (f *fake) ID() inspect.ID { return f.id }
func (f *fake) Snapshot(context.Context) inspect.Snapshot {
	s := f.snapshot
	s.ID, s.Reconciler = f.id, f.id.String()
	return s
}

func (f *fake) Explain(_ context.Context, key string) inspect.Explanation {
	f.ask(key)
	e := f.explanation
	e.Key = key
	return e
}

// Objects uses positions for After, where a real reconciler uses revisions.
func (f *fake) Objects(_ context.Context, q inspect.ObjectQuery) (inspect.ObjectPage, error) {
	if f.listError != nil {
		return inspect.ObjectPage{}, f.listError
	}
	var all []inspect.ObjectLine
	for _, o := range f.objects {
		if q.Status == "" || strings.EqualFold(q.Status, o.Status) {
			all = append(all, o)
		}
	}
	from := 0
	_, _ = fmt.Sscan(q.After, &from)
	from = min(from, len(all))
	to := min(from+q.Limit, len(all))
	page := inspect.ObjectPage{Objects: all[from:to]}
	if to < len(all) {
		page.Next = fmt.Sprint(to)
	}
	return page, nil
}

func (f *fake) Events(q inspect.EventQuery) []inspect.Event {
	var out []inspect.Event
	for _, e := range f.events {
		if (q.Key == "" || q.Key == e.Key) && !e.Started.Before(q.Since) {
			out = append(out, e)
		}
	}
	if q.Limit > 0 {
		out = out[max(0, len(out)-q.Limit):]
	}
	return out
}

func (f *fake) Journal() []inspect.Round   { return f.rounds }
func (f *fake) Timeline() []inspect.Sample { return f.samples }
func (f *fake) Prune()                     { f.did("prune") }
func (f *fake) ApproveSweep() bool         { f.did("approve"); return !f.nothingToApprove }
func (f *fake) Pause()                     { f.did("pause") }
func (f *fake) Resume()                    { f.did("resume") }
func (f *fake) PauseOnly(keys ...string) error {
	f.did("pause only %q", keys)
	f.snapshot.Paused = keys
	return f.actError
}
func (f *fake) Retry(_ context.Context, keys ...string) (int, error) {
	f.did("retry %q", keys)
	return max(1, len(keys)), f.actError
}

func (f *fake) Refresh(_ context.Context, keys ...string) (int, error) {
	f.did("refresh %q", keys)
	return len(keys), f.actError
}

// epoch is the time of the fakes' answers.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newFake(name string) *fake {
	return &fake{
		id:          inspect.ID{Module: "agent", Name: name, Table: "routes"},
		snapshot:    inspect.Snapshot{At: epoch, Condition: "running", Initialized: true},
		explanation: inspect.Explanation{Reconciler: "agent/" + name, At: epoch, State: inspect.StateDone},
	}
}

// server serves the page at /debug/.
type server struct {
	*testing.T
	http.Handler
}

func serve(t *testing.T, opts []debug.Option, all ...inspect.Controller) *server {
	registry := &inspect.Registry{}
	for _, i := range all {
		registry.Add(i)
	}
	return &server{t, debug.New(registry, opts...)}
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

func withBody(contentType, body string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Content-Type", contentType)
		r.Body = io.NopCloser(strings.NewReader(body))
	}
}
