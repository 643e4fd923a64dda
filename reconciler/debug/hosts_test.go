// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/reconciler/debug"
)

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
