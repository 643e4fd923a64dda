// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

// Package nettest has networks for tests: namespaces with a node, a client of it, and endpoints that answer.
package nettest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	nfnetlink "github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/sandbox"
)

// A thread in another namespace ends with its goroutine, except the first thread of the process: so no test may
// run on that one.
func init() { runtime.LockOSThread() }

// Main is a TestMain that runs the tests in namespaces of their own, so that they need no root and do not change the
// host. They fail where the system forbids that.
func Main(m *testing.M) {
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

// Limit is how long a test waits for what takes milliseconds on an idle machine.
const Limit = time.Minute

// Place is a network namespace.
type Place struct {
	testing.TB
	file *os.File
}

// NewPlace returns a new namespace, which ends with the test.
func NewPlace(t testing.TB) *Place {
	var file *os.File
	require.NoError(t, inThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			file, err = os.Open("/proc/thread-self/ns/net")
		}
		return err
	}))
	p := &Place{t, file}
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	p.Do(func() error {
		// No other host has its addresses, so they are there at once. The address of a link itself has no flag for that.
		for _, links := range []string{"all", "default"} {
			if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+links+"/accept_dad", []byte("0"), 0o644); err != nil {
				return err
			}
		}
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

// Try calls a function in the namespace.
func (p *Place) Try(f func() error) error {
	return inThread(func() error {
		if err := unix.Setns(int(p.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// Do calls a function in the namespace, which must succeed.
func (p *Place) Do(f func() error) {
	p.Helper()
	require.NoError(p, p.Try(f))
}

// Connect links two namespaces. The first one is the other's gateway. Each address of IPv4 has its [Twin].
func (p *Place) Connect(other *Place, gateway string, addresses ...string) {
	p.Helper()
	name := "to-" + addresses[0]
	p.Do(func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "node", PeerNamespace: netlink.NsFd(other.file.Fd()),
		})
	})
	assign := func(name string, addresses ...string) error {
		link, err := netlink.LinkByName(name)
		for _, address := range addresses {
			for _, prefix := range both(netip.MustParseAddr(address)) {
				if err == nil {
					err = AddTo(link, prefix)
				}
			}
		}
		if err == nil {
			err = netlink.LinkSetUp(link)
		}
		return err
	}
	p.Do(func() error { return assign(name, gateway) })
	other.Do(func() error {
		if err := assign("node", addresses...); err != nil {
			return err
		}
		return routeTo(gateway)
	})
}

// both returns an address and its twin, each in a network of 256.
func both(a netip.Addr) []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(a, 24), netip.PrefixFrom(Twin(a), 120)}
}

// AddTo adds an address to a link, and waits until packets to it arrive: for IPv6, the kernel routes them a moment later.
func AddTo(link netlink.Link, address netip.Prefix) error {
	addr, err := netlink.ParseAddr(address.String())
	if err != nil {
		return err
	}
	addr.Flags = unix.IFA_F_NODAD
	if err := netlink.AddrAdd(link, addr); err != nil {
		return err
	}
	for deadline := time.Now().Add(Limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		routes, _ := netlink.RouteGet(addr.IP) // it fails without a route
		if len(routes) == 1 && routes[0].Type == unix.RTN_LOCAL {
			return nil
		}
	}
	return fmt.Errorf("there is no route to %s", address)
}

// routeTo sends what has no other route to a gateway.
func routeTo(gateway string) error {
	err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)})
	if err == nil {
		err = netlink.RouteAdd(&netlink.Route{Gw: Twin(netip.MustParseAddr(gateway)).AsSlice()})
	}
	return err
}

// Twin returns the address of IPv6 that is beside one of IPv4: fd00::a02:b beside 10.2.0.11.
func Twin(address netip.Addr) netip.Addr {
	twin := [16]byte{0: 0xfd}
	copy(twin[12:], address.AsSlice())
	return netip.AddrFrom16(twin)
}

// TwinOf is [Twin] with a port.
func TwinOf(at netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(Twin(at.Addr()), at.Port()) }

// Generation returns a number that each transaction of nftables in the namespace increments.
func (p *Place) Generation() (id uint32) {
	p.Helper()
	p.Do(func() error {
		conn, err := nfnetlink.Dial(unix.NETLINK_NETFILTER, nil)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		answers, err := conn.Execute(nfnetlink.Message{
			Header: nfnetlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: nfnetlink.Request},
			Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
		})
		if err != nil {
			return err
		}
		attributes, err := nfnetlink.UnmarshalAttributes(answers[0].Data[4:])
		for _, a := range attributes {
			if a.Type == unix.NFTA_GEN_ID {
				id = binary.BigEndian.Uint32(a.Data)
			}
		}
		return err
	})
	require.NotZero(p, id)
	return id
}

// Network is a node with a client, a machine that has all endpoints, and one that gets all other packets:
//
//	client 10.1.0.2 --- 10.1.0.1 node 10.2.0.1 --- endpoints 10.2.0.11 to 10.2.0.20
//	                             node 10.3.0.1 --- outside 10.3.0.2
//
// All of them have addresses of IPv6, too; see [Twin].
type Network struct {
	Node, Client, Endpoints, Outside *Place
}

// The addresses of the client, of the node on the side of the endpoints, and of where everything else goes.
const (
	ClientAddress  = "10.1.0.2"
	NodeAddress    = "10.2.0.1"
	OutsideAddress = "10.3.0.2"
)

// EndpointAt returns the address of an endpoint.
func EndpointAt(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 0, byte(11 + n)}), 8080)
}

// EndpointCount is the number of endpoints.
const EndpointCount = 10

// NewNetwork returns a new one, which ends with the test. Every endpoint answers with its own address and that of the client,
// by TCP and UDP. On [Echo] it answers what it gets.
func NewNetwork(t testing.TB) *Network {
	n := &Network{Node: NewPlace(t), Client: NewPlace(t), Endpoints: NewPlace(t), Outside: NewPlace(t)}
	n.Node.Connect(n.Client, "10.1.0.1", ClientAddress)
	n.Node.Connect(n.Outside, "10.3.0.1", OutsideAddress)
	var addresses []string
	for i := range EndpointCount {
		addresses = append(addresses, EndpointAt(i).Addr().String())
	}
	n.Node.Connect(n.Endpoints, NodeAddress, addresses...)
	n.Node.Do(func() error {
		// Without a limit of one rejection a second, which is per client.
		for name, value := range map[string]string{
			"ipv4/ip_forward": "1", "ipv4/icmp_ratelimit": "0", "ipv6/conf/all/forwarding": "1", "ipv6/icmp/ratelimit": "0",
		} {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644); err != nil {
				return err
			}
		}
		// A node has a route to everywhere, also to services: there, all packets are lost.
		return routeTo(OutsideAddress)
	})
	for i := range EndpointCount {
		n.Endpoints.Serve(EndpointAt(i))
		n.Endpoints.Serve(TwinOf(EndpointAt(i)))
	}
	n.echo(t)
	return n
}

// Echo is where an endpoint answers what it gets, by TCP, for as long as the client likes.
var Echo = netip.AddrPortFrom(EndpointAt(0).Addr(), 7)

func (n *Network) echo(t testing.TB) {
	n.Endpoints.Do(func() error {
		l, err := net.Listen("tcp", Echo.String())
		if err != nil {
			return err
		}
		var all sync.WaitGroup
		t.Cleanup(func() {
			require.NoError(t, l.Close())
			all.Wait()
		})
		all.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				all.Go(func() {
					_, _ = io.Copy(conn, conn)
					_ = conn.Close()
				})
			}
		})
		return nil
	})
}

// Serve has an address of the namespace answer with itself and the address of the client, by TCP and UDP, until the test ends.
func (p *Place) Serve(at netip.AddrPort) {
	p.Helper()
	address := at.String()
	p.Do(func() error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		p.Cleanup(func() { require.NoError(p, l.Close()) })
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
		p.Cleanup(func() { require.NoError(p, u.Close()) })
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
