// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// FuzzPageQueries sends random requests to the page. No request causes a server error or puts its text
// into the markup, and an action runs only for a POST that names its objects, or all of them.
func FuzzPageQueries(f *testing.F) {
	agent, registry := full(), &inspect.Registry{}
	registry.Add(agent)
	page := debug.New(registry, debug.WithWrites())
	f.Fuzz(func(t *testing.T, post bool, path, query, contentType, body string) {
		r := httptest.NewRequest(http.MethodGet, "http://here.test/", strings.NewReader(body))
		if post {
			r.Method = http.MethodPost
		}
		r.URL.Path, r.URL.RawQuery = "/debug/"+path, query
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		answer, text := w.Result(), w.Body.String()
		if answer.StatusCode >= http.StatusInternalServerError {
			t.Fatalf("%d: %s", answer.StatusCode, text)
		}
		switch kind := answer.Header.Get("Content-Type"); {
		case kind == "application/json" && !json.Valid([]byte(text)):
			t.Fatalf("no JSON: %s", text)
		case strings.HasPrefix(kind, "text/html") && strings.Count(text, "<script") != 1:
			t.Fatalf("a foreign script: %s", text)
		}
		acts := agent.Acts()
		kind, _, _ := mime.ParseMediaType(contentType)
		if len(acts) > 0 && body != "" && kind != "application/x-www-form-urlencoded" {
			t.Fatalf("%q ran for the body %q of type %q", acts, body, contentType)
		}
		checkActs(t, r, acts)
	})
}

// checkActs fails if an action ran that a request did not ask for.
func checkActs(t *testing.T, r *http.Request, acts []string) {
	if len(acts) == 0 {
		return
	}
	sent, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || r.Method != http.MethodPost {
		t.Fatalf("%q ran for %s %q", acts, r.Method, r.URL)
	}
	// The handler has read the body: its fields are in the form.
	if r.Form != nil {
		sent = r.Form
	}
	everything := sent.Get("all") == "true"
	if everything == (len(sent["key"]) > 0) {
		t.Fatalf("%q ran for %v", acts, sent)
	}
	for _, act := range acts {
		if whole := !strings.Contains(act, `"`); whole != everything {
			t.Fatalf("%q ran for %v", acts, sent)
		}
	}
}
