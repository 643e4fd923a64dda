// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package httpapi

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
)

// maxBody is how many bytes a request may have; an object is a few hundred.
const maxBody = 64 << 10

// guard lets only those requests through that come from this host and not from a web
// page: listening on loopback alone does not keep a browser from sending the requests
// of any page here. The Host has to be a loopback address (or a page could make its
// own name one), and what changes something must not come across origins.
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

// isLoopback tells whether a host, with or without a port, is this one's loopback.
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
