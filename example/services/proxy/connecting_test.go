// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/nettest"
)

// A client sends its first packet again and again. It must not go to an endpoint that is gone each time.
func TestClientThatConnectsLeavesAnEndpointThatIsGone(t *testing.T) {
	dead := wished{netip.MustParseAddrPort("10.9.9.9:8080"), true} // packets to it are lost
	alive := wished{endpointAt(1), true}
	for name, change := range map[string]func(p *program) error{
		"an endpoint is replaced": func(p *program) error {
			return p.write(message{Rows: []*wish{{Name: "web", At: web, Endpoints: []wished{alive}}}})
		},
		"a service is deleted and comes back": func(p *program) error {
			if err := p.write(message{Gone: []string{"web"}}); err != nil {
				return err
			}
			if _, err := p.wait(t.Context()); err != nil {
				return err
			}
			return p.write(message{Rows: []*wish{{Name: "web", At: web, Endpoints: []wished{alive}}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := nettest.NewNetwork(t)
			p, err := startedProgram(t.Context(), openTable(t, n.Node))
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Stop(quiet, context.Background())) }()
			require.NoError(t, p.write(message{Rows: []*wish{{Name: "web", At: web, Endpoints: []wished{dead}}}}))
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
		ops.stale.add(true)
	}
}

// withoutConntrack is a fake kernel whose conntrack fails.
type withoutConntrack struct {
	*fake
	fails atomic.Bool
}

func (k *withoutConntrack) DeleteFlows(flows ...kernel.Flow) error {
	return k.DeleteFlowsIf(among(flows))
}

func (k *withoutConntrack) DeleteFlowsIf(stale func(kernel.Flow) bool) error {
	if k.fails.Load() {
		return errors.New("conntrack fails")
	}
	return k.fake.DeleteFlowsIf(stale)
}

// Old flows are one thing, new connections another: a conntrack that fails does not keep the table from being repaired.
func TestTableIsRepairedWhileConntrackFails(t *testing.T) {
	for name, failsFrom := range map[string]time.Duration{"from the start": 0, "later": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &withoutConntrack{fake: newFake()}
				k.fails.Store(failsFrom == 0)
				k.counts[orphan], k.slots[kernel.Slot{Service: orphan}] = 1, elsewhere
				p, err := startedProgram(t.Context(), k)
				require.NoError(t, err)
				defer func() { require.NoError(t, p.Stop(quiet, context.Background())) }()
				require.NoError(t, p.write(message{Rows: []*wish{service("web", web, 0)}}))
				time.Sleep(failsFrom + time.Second)
				want := map[string]string{web.String(): "1: [10.2.0.11:8080]"}
				require.Equal(t, want, dumpOf(k.list()), "at the start")

				k.fails.Store(true)
				k.outside(func() { clear(k.slots); clear(k.counts) })
				p.loop.Resync()
				time.Sleep(time.Minute)
				require.Equal(t, want, dumpOf(k.list()), "after somebody else has deleted everything")
			})
		})
	}
}

// A service may get the address of a server. Connections of TCP that the server has stay; new ones go to the service.
func TestConnectionsOfAServerStayWhenAServiceGetsItsAddress(t *testing.T) {
	n := nettest.NewNetwork(t)
	p, err := startedProgram(t.Context(), openTable(t, n.Node))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop(quiet, context.Background())) })
	// Without a rule that needs conntrack, the node may not know the connection.
	require.NoError(t, p.write(message{Rows: []*wish{service("web", web, 0)}}))
	_, err = p.wait(t.Context())
	require.NoError(t, err)

	var conn net.Conn
	n.Client.Do(func() (err error) {
		conn, err = nettest.Dial(context.Background(), "tcp", nettest.Echo, netip.AddrPort{})
		return err
	})
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	hello := func() {
		require.NoError(t, conn.SetDeadline(time.Now().Add(nettest.Limit)))
		_, err := conn.Write([]byte("hello"))
		require.NoError(t, err)
		size, err := conn.Read(make([]byte, 10))
		require.NoError(t, err)
		require.Equal(t, 5, size)
	}
	hello()
	require.NoError(t, p.write(message{Rows: []*wish{service("echo", kernel.Service{Protocol: kernel.TCP, Address: nettest.Echo}, 1)}}))
	_, err = p.wait(t.Context())
	require.NoError(t, err)
	hello()
	p.loop.Resync()
	time.Sleep(200 * time.Millisecond)
	hello()
}
