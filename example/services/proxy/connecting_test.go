// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/internal/nettest"
	"github.com/statekeel/statekeel/example/services/kernel"
)

// A client sends its first packet again and again. It must not go to an endpoint that is gone each time.
func TestClientThatConnectsLeavesAnEndpointThatIsGone(t *testing.T) {
	dead := Endpoint{netip.MustParseAddrPort("10.9.9.9:8080"), true} // packets to it are lost
	alive := Endpoint{endpointAt(1), true}
	for name, change := range map[string]func(p *program) error{
		"an endpoint is replaced": func(p *program) error {
			return p.write(message{Rows: []*Service{{Name: "web", At: web, Endpoints: []Endpoint{alive}}}})
		},
		"a service is deleted and comes back": func(p *program) error {
			if err := p.write(message{Gone: []string{"web"}}); err != nil {
				return err
			}
			if _, err := p.wait(t.Context()); err != nil {
				return err
			}
			return p.write(message{Rows: []*Service{{Name: "web", At: web, Endpoints: []Endpoint{alive}}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := nettest.NewNetwork(t)
			p, err := startedProgram(t.Context(), openTable(t, n.Node))
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Stop(quiet, context.Background())) }()
			require.NoError(t, p.write(message{Rows: []*Service{{Name: "web", At: web, Endpoints: []Endpoint{dead}}}}))
			_, err = p.wait(t.Context())
			require.NoError(t, err)

			answered := make(chan error, 1)
			go func() {
				answered <- n.Client.Try(func() error {
					g, err := nettest.Ask(context.Background(), "tcp", web.Address, netip.AddrPort{})
					if err == nil && g.Endpoint != alive.Address {
						err = fmt.Errorf("%s answers", g.Endpoint)
					}
					return err
				})
			}()
			n.Node.Do(func() error {
				for deadline := time.Now().Add(nettest.Limit); time.Now().Before(deadline); {
					flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
					if err != nil || slices.ContainsFunc(flows, func(f *netlink.ConntrackFlow) bool { return f.Reverse.SrcIP.Equal(net.IP{10, 9, 9, 9}) }) {
						return err
					}
				}
				return fmt.Errorf("no flow")
			})
			require.NoError(t, change(p))
			require.NoError(t, <-answered)
		})
	}
}

// An endpoint that is not ready any more serves those that it has.
func TestConnectionsToAnEndpointThatIsGoneStay(t *testing.T) {
	n := nettest.NewNetwork(t)
	ops := newOperations(openTable(t, n.Node))
	at := kernel.Service{Protocol: kernel.TCP, Address: netip.MustParseAddrPort("10.96.2.1:7")}
	write := func(endpoint netip.AddrPort) {
		entry := entryOf(at)
		entry[0].Object.Endpoints = []netip.AddrPort{endpoint}
		ops.ProcessRound(t.Context(), nil, nil, entry)
		require.NoError(t, entry[0].Result)
	}
	write(nettest.Echo)
	var conn net.Conn
	n.Client.Do(func() (err error) {
		conn, err = nettest.Dial(context.Background(), "tcp", at.Address, netip.AddrPort{})
		return err
	})
	defer func() { require.NoError(t, conn.Close()) }()
	hello := func() {
		require.NoError(t, conn.SetDeadline(time.Now().Add(nettest.Limit)))
		_, err := conn.Write([]byte("hello"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 10))
		require.NoError(t, err)
	}
	hello()
	write(endpointAt(1))
	for range 2 { // by the change, and by a comparison
		require.NoError(t, ops.forget(t.Context()))
		hello()
		ops.stale.addUnfit()
	}
}
