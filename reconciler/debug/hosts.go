// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// WithHosts sets the allowed hosts: the names or addresses, without ports, that a request may have in
// its Host header. Requests for other hosts get 403. "*" allows all hosts; an empty string is ignored. On
// connections to a loopback address the hosts of the machine itself ("localhost" and loopback
// addresses) are always allowed; without arguments WithHosts allows only them.
//
// Without this option, connections to a loopback address allow only the hosts of the machine itself, and
// other connections allow every host. This protects against DNS rebinding: a site whose name points to
// this machine would have the origin of the page for a browser. A proxy on the same machine that passes
// on the host of its clients needs this option. The local address of a connection comes from
// [http.LocalAddrContextKey], which [http.Server] sets.
func WithHosts(hosts ...string) Option {
	return func(h *handler) {
		h.hosts = map[string]bool{}
		for _, host := range hosts {
			if host = canonical(host); host != "" {
				h.hosts[host] = true
			}
		}
	}
}

// checkHost returns an error for a request whose host is not allowed.
func (h *handler) checkHost(r *http.Request) error {
	local := cameToLoopback(r)
	host := hostOf(r)
	switch {
	case h.hosts == nil && !local, h.hosts["*"], h.hosts[host], local && isLoopback(host):
		return nil
	}
	return failf(http.StatusForbidden, "host is %q, which this page does not answer to", r.Host)
}

// cameToLoopback reports whether the local address of the connection is a loopback address. It is false
// if the server does not set the address.
func cameToLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// isLoopback reports whether a canonical host is always this machine.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// hostOf returns the canonical host of a request without its port; empty if it is not valid.
func hostOf(r *http.Request) string {
	host, bracketed := strings.CutPrefix(r.Host, "[")
	if bracketed {
		host, rest, closed := strings.Cut(host, "]")
		if !closed || rest != "" && rest[0] != ':' {
			return ""
		}
		return canonical(host)
	}
	host, port, _ := strings.Cut(host, ":")
	if strings.Contains(port, ":") {
		return ""
	}
	return canonical(host)
}

// canonical returns a host in the form in which hosts are compared.
func canonical(host string) string {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().WithZone("").String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
