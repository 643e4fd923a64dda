// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/sandbox"
)

// A thread in another namespace ends with its goroutine, except the first thread of the process: so no test may
// run on that one.
func init() { runtime.LockOSThread() }

// TestMain runs the tests in namespaces of their own, so that they need no root and do not change the host. They
// fail where the system forbids that.
func TestMain(m *testing.M) {
	inside, err := sandbox.Inside()
	if err == nil && !inside {
		var code int
		if code, err = sandbox.Run(os.Args[1:]); err == nil {
			os.Exit(code)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// limit is how long a test waits for what takes milliseconds on an idle machine.
const limit = time.Minute

// place is a network namespace.
type place struct {
	testing.TB
	file *os.File
}

// newPlace returns a new namespace, which ends with the test.
func newPlace(t testing.TB) *place {
	var file *os.File
	require.NoError(t, inThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			file, err = os.Open("/proc/thread-self/ns/net")
		}
		return err
	}))
	p := &place{t, file}
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	p.do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		return err
	})
	return p
}

// inThread calls a function in a thread that ends then.
func inThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}

// try calls a function in the namespace.
func (p *place) try(f func() error) error {
	return inThread(func() error {
		if err := unix.Setns(int(p.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// do calls a function in the namespace, which must succeed.
func (p *place) do(f func() error) {
	p.Helper()
	require.NoError(p, p.try(f))
}

// connect links two namespaces. The first one is the other's gateway.
func (p *place) connect(other *place, gateway string, addresses ...string) {
	p.Helper()
	name := "to-" + addresses[0]
	p.do(func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "node", PeerNamespace: netlink.NsFd(other.file.Fd()),
		})
	})
	assign := func(name string, addresses ...string) error {
		link, err := netlink.LinkByName(name)
		for _, address := range addresses {
			var addr *netlink.Addr
			if err == nil {
				addr, err = netlink.ParseAddr(address + "/24")
			}
			if err == nil {
				err = netlink.AddrAdd(link, addr)
			}
		}
		if err == nil {
			err = netlink.LinkSetUp(link)
		}
		return err
	}
	p.do(func() error { return assign(name, gateway) })
	other.do(func() error {
		if err := assign("node", addresses...); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)})
	})
}

// network is a node with a client and a machine that has all endpoints:
//
//	client 10.1.0.2 --- 10.1.0.1 node 10.2.0.1 --- endpoints 10.2.0.11 to 10.2.0.20
type network struct {
	*testing.T
	node, client, endpoints *place
	*Table
}

// The addresses of the client, of the node on the side of the endpoints, and of where everything else goes.
const (
	clientAddress  = "10.1.0.2"
	nodeAddress    = "10.2.0.1"
	outsideAddress = "10.3.0.2"
)

// endpointAt returns the address of an endpoint.
func endpointAt(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 0, byte(11 + n)}), 8080)
}

// The number of endpoints, and the services of the tests.
const endpointCount = 10

var (
	web = Service{TCP, netip.MustParseAddrPort("10.96.0.1:80")}
	dns = Service{UDP, netip.MustParseAddrPort("10.96.0.1:53")}
)

func newNetwork(t *testing.T) *network {
	n := &network{T: t, node: newPlace(t), client: newPlace(t), endpoints: newPlace(t)}
	n.node.connect(n.client, "10.1.0.1", clientAddress)
	n.node.connect(newPlace(t), "10.3.0.1", outsideAddress)
	var addresses []string
	for i := range endpointCount {
		addresses = append(addresses, endpointAt(i).Addr().String())
	}
	n.node.connect(n.endpoints, nodeAddress, addresses...)
	n.node.do(func() (err error) {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
			return err
		}
		// A node has a route to everywhere, also to services: there, all packets are lost.
		if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(outsideAddress)}); err != nil {
			return err
		}
		n.Table, err = Open("services")
		return err
	})
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	n.serve()
	return n
}

// serve makes every endpoint answer with its own address and that of the client, by TCP and UDP.
func (n *network) serve() {
	for i := range endpointCount {
		address := endpointAt(i).String()
		n.endpoints.do(func() error {
			l, err := net.Listen("tcp", address)
			if err != nil {
				return err
			}
			n.Cleanup(func() { require.NoError(n, l.Close()) })
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = fmt.Fprintf(conn, "%s %s", address, conn.RemoteAddr())
					_ = conn.Close()
				}
			}()
			u, err := net.ListenPacket("udp", address)
			if err != nil {
				return err
			}
			n.Cleanup(func() { require.NoError(n, u.Close()) })
			go func() {
				buf := make([]byte, 100)
				for {
					_, from, err := u.ReadFrom(buf)
					if err != nil {
						return
					}
					_, _ = u.WriteTo(fmt.Appendf(nil, "%s %s", address, from), from)
				}
			}()
			return nil
		})
	}
}

// greeting is what an endpoint says: its address, and that of the client.
type greeting struct{ endpoint, client netip.AddrPort }

func parseGreeting(text []byte) (a greeting, err error) {
	endpoint, client, _ := strings.Cut(string(text), " ")
	if a.endpoint, err = netip.ParseAddrPort(endpoint); err == nil {
		a.client, err = netip.ParseAddrPort(client)
	}
	return a, err
}

// ask connects to a service, from the namespace of the calling thread.
func ask(service Service) (greeting, error) { return askFrom(service, netip.AddrPort{}) }

// askFrom does it from an address, unless that is zero.
func askFrom(service Service, from netip.AddrPort) (greeting, error) {
	conn, err := dial(service, from)
	if err != nil {
		return greeting{}, err
	}
	defer func() { _ = conn.Close() }()
	if tcp, ok := conn.(*net.TCPConn); ok {
		// No port is kept when this connection is gone, which thousands follow.
		if err := tcp.SetLinger(0); err != nil {
			return greeting{}, err
		}
		text, err := io.ReadAll(conn)
		if err != nil {
			return greeting{}, err
		}
		return parseGreeting(text)
	}
	return exchange(conn)
}

func dial(service Service, from netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{Timeout: limit}
	switch {
	case from.IsValid() && service.Protocol == TCP:
		dialer.LocalAddr = net.TCPAddrFromAddrPort(from)
	case from.IsValid():
		dialer.LocalAddr = net.UDPAddrFromAddrPort(from)
	}
	conn, err := dialer.Dial(service.Protocol.String(), service.Address.String())
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(limit))
	}
	return conn, err
}

// exchange sends a datagram and waits for the answer.
func exchange(conn net.Conn) (greeting, error) {
	if _, err := conn.Write([]byte("hello")); err != nil {
		return greeting{}, err
	}
	buf := make([]byte, 100)
	size, err := conn.Read(buf)
	if err != nil {
		return greeting{}, err
	}
	return parseGreeting(buf[:size])
}

// reaches connects to a service from a namespace, until answers came from all these endpoints, and returns the
// addresses of the client that they saw.
func (p *place) reaches(service Service, endpoints ...netip.AddrPort) (clients map[netip.Addr]bool) {
	p.Helper()
	answered, clients := make(map[netip.AddrPort]bool), make(map[netip.Addr]bool)
	p.do(func() error {
		for deadline := time.Now().Add(limit); len(answered) < len(endpoints); {
			g, err := ask(service)
			if err != nil {
				return err
			}
			answered[g.endpoint], clients[g.client.Addr()] = true, true
			if !slices.Contains(endpoints, g.endpoint) || time.Now().After(deadline) {
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
