// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package httpapi

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
)

// maxBody is the largest size of a request in bytes; an object is a few hundred.
const maxBody = 64 << 10

// guard accepts only requests that come from this host and not from a web page: loopback alone does not keep
// a browser from sending requests of any web page. The Host must be a loopback address, since a page could
// point its own name here, and requests that change something must not be cross-origin.
func guard(next http.Handler) http.Handler {
	protected := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			fail(w, http.StatusForbidden, errors.New("the Host of the request is not a loopback address"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		protected.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a host, with or without a port, is a loopback address.
func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
		if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
			host = host[1 : len(host)-1]
		}
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
