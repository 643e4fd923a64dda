// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestPageWorksUnderAnyPath(t *testing.T) {
	registry, f := &inspect.Registry{}, full()
	registry.Add(f)
	page := debug.New(registry, debug.WithWrites())
	for root, mount := range map[string]func(*http.ServeMux){
		"/debug/reconciler/": func(mux *http.ServeMux) { mux.Handle("/debug/reconciler/", page) },
		"/debug/reconciler2/": func(mux *http.ServeMux) {
			mux.Handle("/debug/reconciler2/", http.StripPrefix("/debug/reconciler2", page))
		},
		"/x/": func(mux *http.ServeMux) { mux.Handle("/x/", http.StripPrefix("/x/", page)) },
		"/":   func(mux *http.ServeMux) { mux.Handle("/", page) },
		"/a/b/": func(mux *http.ServeMux) {
			inner := http.NewServeMux()
			inner.Handle("/b/", page)
			mux.Handle("/a/", http.StripPrefix("/a", inner))
		},
	} {
		mux := http.NewServeMux()
		mount(mux)
		server := httptest.NewServer(mux)
		answer, err := server.Client().Do(&http.Request{URL: addressOf(t, server.URL+root), Host: "evil.test"})
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusForbidden, answer.StatusCode, "the server has a loopback address")
		seen := crawl(t, server, root)
		for _, name := range []string{"", "show", "objects", "explain", "journal", "style.css", "live.js", "icon.svg"} {
			assert.True(t, seen[root+name], "%s%s of %v", root, name, seen)
		}
		assert.Subset(t, f.Acts(), []string{
			"retry []", "refresh []", "prune", "approve", "pause", "resume",
			`retry ["route-0"]`, `refresh ["route-0"]`, `pause only ["route-0"]`,
		})
		server.Close()
	}
}

func addressOf(t *testing.T, text string) *url.URL {
	address, err := url.Parse(text)
	require.NoError(t, err)
	return address
}

// crawl follows all links and presses all buttons. It returns the paths that it has seen.
func crawl(t *testing.T, server *httptest.Server, root string) map[string]bool {
	client := server.Client()
	defer client.CloseIdleConnections()
	seen, visited := map[string]bool{}, map[string]bool{}
	for todo := []*url.URL{addressOf(t, server.URL+root)}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		if visited[at.String()] {
			continue
		}
		visited[at.String()], seen[at.Path] = true, true
		method := http.MethodGet
		if name := at.Path[strings.LastIndex(at.Path, "/")+1:]; strings.Contains("retry refresh prune approve pause resume", name) && name != "" {
			method = http.MethodPost
		}
		r, err := http.NewRequestWithContext(t.Context(), method, at.String(), nil)
		require.NoError(t, err)
		answer, err := client.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		// The address of the form for a key has no key.
		if at.Path == root+"explain" && !at.Query().Has("key") {
			continue
		}
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s %s: %s", method, at, body)
		if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
			continue
		}
		for _, ref := range addresses(t, string(body)) {
			to, err := answer.Request.URL.Parse(ref)
			require.NoError(t, err)
			todo = append(todo, to)
		}
	}
	return seen
}

// to changes a request to one for a host, on a connection to a local address. nil means that the server
// does not set the local address.
func to(host string, local net.Addr) func(*http.Request) {
	return func(r *http.Request) {
		r.Host = host
		if local != nil {
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
		}
	}
}

func tcp(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 8080} }

var (
	// own are names that always mean the machine itself.
	own = []string{
		"localhost", "localhost:8080", "LOCALHOST:8080", "localhost.", "127.0.0.1", "127.0.0.1:8080", "127.9.9.9",
		"[::1]", "[::1]:8080", "[::ffff:127.0.0.1]:8080",
	}
	// foreign are names that the owner of another site can point to the machine.
	foreign = []string{
		"evil.test", "evil.test:8080", "localhost.evil.test", "127.0.0.1.evil.test", "10.0.0.1:8080", "0.0.0.0:8080", "",
		"[::1", "::1", "localhost:8080:8080", "localhost@evil.test", "evil.test#localhost",
	}
)

func TestHostsThatAreAnswered(t *testing.T) {
	socket := &net.UnixAddr{Name: "/run/agent.sock", Net: "unix"}
	loopback := []net.Addr{tcp("127.0.0.1"), tcp("::1"), tcp("127.1.2.3")}
	other := []net.Addr{nil, tcp("10.0.0.1"), tcp("2001:db8::1"), socket}
	named := []debug.Option{debug.WithHosts("Agent.test.", "10.0.0.1", "[2001:db8::1]")}
	names := []string{"agent.test", "AGENT.test:80", "10.0.0.1:8080", "[2001:DB8:0::1]:8080"}
	for _, c := range []struct {
		opts            []debug.Option
		locals          []net.Addr
		answers, denies []string
	}{
		{nil, loopback, own, foreign},
		{nil, other, slices.Concat(own, foreign), nil},
		{named, loopback, slices.Concat(own, names), foreign[:4]},
		{named, other, names, foreign[:4]},
		{[]debug.Option{debug.WithHosts()}, other, nil, append(foreign, "agent.test")},
		{[]debug.Option{debug.WithHosts("*")}, slices.Concat(loopback, other), foreign, nil},
		{[]debug.Option{debug.WithHosts("")}, slices.Concat(loopback, other), nil, foreign},
	} {
		f := full()
		s := serve(t, append(writes, c.opts...), f)
		for _, local := range c.locals {
			for _, path := range []string{"", "show?reconciler=agent/v4", "?format=json", "style.css"} {
				for _, host := range c.answers {
					answer, _ := s.send("GET", path, to(host, local))
					assert.Equal(t, http.StatusOK, answer.StatusCode, "%q at %v: %s", host, local, path)
				}
				for _, host := range c.denies {
					answer, body := s.send("GET", path, to(host, local))
					assert.Equal(t, http.StatusForbidden, answer.StatusCode, "%q at %v: %s", host, local, path)
					assert.NotContains(t, body, "agent/v4", "%q at %v: %s", host, local, path)
				}
			}
			for _, host := range c.denies {
				s.send("POST", "pause?reconciler=agent/v4&all=true", to(host, local))
			}
		}
		assert.Empty(t, f.Acts())
	}
}
