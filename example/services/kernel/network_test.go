// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/nettest"
)

func TestMain(m *testing.M) { nettest.Main(m) }

// place is a network namespace.
type place struct{ *nettest.Place }

func newPlace(t testing.TB) place { return place{nettest.NewPlace(t)} }

func (p place) try(f func() error) error { return p.Try(f) }

// do calls a function in the namespace, which must succeed.
func (p place) do(f func() error) {
	p.Helper()
	p.Do(f)
}

// network is a network with a table in its node.
type network struct {
	*testing.T
	node, client, endpoints place
	*Table
}

const (
	clientAddress = nettest.ClientAddress
	nodeAddress   = nettest.NodeAddress
	endpointCount = nettest.EndpointCount
	limit         = nettest.Limit
)

func endpointAt(n int) netip.AddrPort { return nettest.EndpointAt(n) }

// The services of the tests.
var (
	web = Service{TCP, netip.MustParseAddrPort("10.96.0.1:80")}
	dns = Service{UDP, netip.MustParseAddrPort("10.96.0.1:53")}
)

// twin returns a service of IPv6 beside one of IPv4.
func twin(s Service) Service { return Service{s.Protocol, nettest.TwinOf(s.Address)} }

// all are the services of the tests, of both families.
var all = []Service{web, dns, twin(web), twin(dns)}

// beside returns an address, or its twin if the service is of IPv6.
func beside(s Service, address string) netip.Addr {
	if a := netip.MustParseAddr(address); s.Address.Addr().Is4() {
		return a
	}
	return nettest.Twin(netip.MustParseAddr(address))
}

// endpointOf returns an endpoint of the family of a service.
func endpointOf(s Service, n int) netip.AddrPort {
	return netip.AddrPortFrom(beside(s, endpointAt(n).Addr().String()), endpointAt(n).Port())
}

func newNetwork(t *testing.T) *network {
	n := nettest.NewNetwork(t)
	node := place{n.Node}
	return &network{t, node, place{n.Client}, place{n.Endpoints}, openIn(t, node)}
}

// ask connects to a service, from the namespace of the calling thread.
func ask(service Service) (nettest.Greeting, error) { return askFrom(service, netip.AddrPort{}) }

// askFrom does it from an address, unless that is zero.
func askFrom(service Service, from netip.AddrPort) (nettest.Greeting, error) {
	return nettest.Ask(context.Background(), service.Protocol.String(), service.Address, from)
}

func dial(service Service, from netip.AddrPort) (net.Conn, error) {
	return nettest.Dial(context.Background(), service.Protocol.String(), service.Address, from)
}

// reaches connects to a service from a namespace, until answers came from all these endpoints, and returns the
// addresses of the client that they saw.
func (p place) reaches(service Service, endpoints ...netip.AddrPort) (clients map[netip.Addr]bool) {
	p.Helper()
	answered, clients := make(map[netip.AddrPort]bool), make(map[netip.Addr]bool)
	p.do(func() error {
		for deadline := time.Now().Add(limit); len(answered) < len(endpoints); {
			g, err := ask(service)
			if err != nil {
				return err
			}
			answered[g.Endpoint], clients[g.Client.Addr()] = true, true
			if !slices.Contains(endpoints, g.Endpoint) || time.Now().After(deadline) {
				return fmt.Errorf("%v answered instead of %v", answered, endpoints)
			}
		}
		return nil
	})
	return clients
}

// set commits a service with exactly these endpoints, when it had so many before.
func (n *network) set(service Service, before int, endpoints ...netip.AddrPort) {
	n.Helper()
	b := NewBatch()
	for i := range max(before, len(endpoints)) {
		if i < len(endpoints) {
			b.SetSlot(Slot{service, i}, endpoints[i])
		} else {
			b.DeleteSlot(Slot{service, i})
		}
	}
	b.SetCount(service, len(endpoints))
	require.NoError(n, n.Commit(b))
}

// openNew opens a table in a namespace of its own.
func openNew(t testing.TB) *Table { return openIn(t, newPlace(t)) }

func numberedService(i int) Service {
	return Service{TCP, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), 80)}
}

func numberedEndpoint(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 8080)
}

// load fills a table with services of ten endpoints each.
func load(t testing.TB, table *Table, services, perBatch int) {
	b := NewBatch()
	for i := range services {
		for slot := range 10 {
			b.SetSlot(Slot{numberedService(i), slot}, numberedEndpoint(10*i+slot))
		}
		b.SetCount(numberedService(i), 10)
		if (i+1)%perBatch == 0 || i+1 == services {
			require.NoError(t, table.Commit(b))
		}
	}
}
