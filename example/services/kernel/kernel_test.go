// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestConnectionsReachAllEndpoints(t *testing.T) {
	n := newNetwork(t)
	for _, service := range []Service{web, dns} {
		n.set(service, 0, endpointAt(0), endpointAt(1), endpointAt(2))
		clients := n.client.reaches(service, endpointAt(0), endpointAt(1), endpointAt(2))
		assert.Equal(t, map[netip.Addr]bool{netip.MustParseAddr(clientAddress): true}, clients, "the client's address stays")
		n.node.reaches(service, endpointAt(0), endpointAt(1), endpointAt(2))

		n.set(service, 3, endpointAt(3))
		n.client.reaches(service, endpointAt(3))
		n.node.reaches(service, endpointAt(3))
	}
}

func TestEndpointReachesItself(t *testing.T) {
	n := newNetwork(t)
	// The first addresses are the ones from which the endpoints' machine connects.
	for _, service := range []Service{web, dns} {
		n.set(service, 0, endpointAt(0))
		clients := n.endpoints.reaches(service, endpointAt(0))
		assert.Equal(t, map[netip.Addr]bool{netip.MustParseAddr(nodeAddress): true}, clients, "it answers through the node")

	}
}

func TestServiceWithoutEndpointsRejects(t *testing.T) {
	n := newNetwork(t)
	for _, service := range []Service{web, dns} {
		n.set(service, 0)
		for name, from := range map[string]*place{"client": n.client, "node": n.node} {
			from.do(func() error {
				_, err := ask(service)
				t.Log(name, service, err)
				assert.ErrorIs(t, err, unix.ECONNREFUSED, name)
				return nil
			})
		}
		n.set(service, 0, endpointAt(0))
		n.client.reaches(service, endpointAt(0))
		n.node.reaches(service, endpointAt(0))
	}
}

var _ = require.NoError
