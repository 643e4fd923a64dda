// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"context"
	"net"
	"net/http"
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

func TestLoopbackAddressAllowsOnlyLoopbackHosts(t *testing.T) {
	f := full()
	s := serve(t, writes, f)
	for _, local := range []string{"127.0.0.1", "::1", "127.1.2.3"} {
		for _, path := range []string{"", "show?reconciler=agent/v4", "objects?reconciler=agent/v4&format=json", "style.css", "nothing"} {
			for _, host := range foreign {
				answer, body := s.send("GET", path, to(host, tcp(local)))
				assert.Equal(t, http.StatusForbidden, answer.StatusCode, "%q at %s: %s", host, local, path)
				assert.NotContains(t, body, "agent", "%q at %s: %s", host, local, path)
			}
			for _, host := range own {
				answer, _ := s.send("GET", path, to(host, tcp(local)))
				assert.NotEqual(t, http.StatusForbidden, answer.StatusCode, "%q at %s: %s", host, local, path)
			}
		}
		answer, _ := s.send("POST", "pause?reconciler=agent/v4&all=true", to("evil.test", tcp(local)))
		assert.Equal(t, http.StatusForbidden, answer.StatusCode)
	}
	assert.Empty(t, f.Acts())
}

func TestOtherAddressesAllowEveryHost(t *testing.T) {
	s := serve(t, nil, full())
	for _, local := range []net.Addr{nil, tcp("10.0.0.1"), tcp("2001:db8::1"), &net.UnixAddr{Name: "/run/agent.sock", Net: "unix"}} {
		for _, host := range append(own, foreign...) {
			answer, _ := s.send("GET", "", to(host, local))
			assert.Equal(t, http.StatusOK, answer.StatusCode, "%q at %v", host, local)
		}
	}
}

func TestWithHostsSetsTheAllowedHosts(t *testing.T) {
	f := full()
	for _, c := range []struct {
		hosts           []string
		answers, denies []string
	}{
		{[]string{"Agent.test.", "10.0.0.1", "[2001:db8::1]"}, []string{"agent.test", "AGENT.test:80", "10.0.0.1:8080", "[2001:DB8:0::1]:8080"}, foreign[:4]},
		{nil, nil, append(foreign, "agent.test")},
		{[]string{"*"}, foreign, nil},
		{[]string{""}, nil, foreign},
	} {
		s := serve(t, []debug.Option{debug.WithHosts(c.hosts...)}, f)
		for _, local := range []net.Addr{nil, tcp("10.0.0.1"), tcp("127.0.0.1")} {
			for _, host := range c.answers {
				answer, _ := s.send("GET", "", to(host, local))
				assert.Equal(t, http.StatusOK, answer.StatusCode, "%q of %q at %v", host, c.hosts, local)
			}
			for _, host := range c.denies {
				answer, _ := s.send("GET", "", to(host, local))
				assert.Equal(t, http.StatusForbidden, answer.StatusCode, "%q of %q at %v", host, c.hosts, local)
			}
		}
		answer, _ := s.send("GET", "", to("localhost", tcp("127.0.0.1")))
		assert.Equal(t, http.StatusOK, answer.StatusCode, "%q", c.hosts)
	}
}
