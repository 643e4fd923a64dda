// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// WithHosts sets the hosts that the page answers to: names or addresses, without ports, as
// requests have them in their Host header; an empty one is ignored. All others get 403. Hosts of
// the machine itself, "localhost" and loopback addresses, are answered besides on connections that
// came to a loopback address. "*" stands for all hosts; WithHosts without any leaves the hosts of the
// machine itself.
//
// Without the option connections that came to a loopback address are for the hosts of the
// machine itself, and others for any host. That keeps out a site whose name its owner points
// to this machine (DNS rebinding), which is an origin of its own to browsers. A proxy on the
// same machine that passes on the host of its clients needs the option. Which address a
// connection came to is known from [http.LocalAddrContextKey], which [http.Server] sets.
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

// checkHost returns an error for a request whose host is not one of the page's.
func (h *handler) checkHost(r *http.Request) error {
	local := cameToLoopback(r)
	host := hostOf(r)
	switch {
	case h.hosts == nil && !local, h.hosts["*"], h.hosts[host], local && isLoopback(host):
		return nil
	}
	return failf(http.StatusForbidden, "host is %q, which this page does not answer to", r.Host)
}

// cameToLoopback reports whether the connection came to a loopback address, as far as the
// server tells.
func cameToLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// isLoopback reports whether a canonical host can only be this machine.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// hostOf returns the canonical host of a request; empty if it has none that makes sense.
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

// canonical returns a host in the one form that hosts are compared in.
func canonical(host string) string {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().WithZone("").String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
