// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package demo

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The addresses. Everything else, as the addresses of services, the client sends to the node.
const (
	clientAddress   = "10.1.0.2"
	clientGateway   = "10.1.0.1"
	machinesGateway = "10.2.0.1"
	serviceNet      = "10.96.0.0/12"
	machinePort     = 8080
	firstMachine    = 11
	lastMachine     = 20
)

// Network is a client and ten machines beside the namespace of this process, which is the node between them:
//
//	client 10.1.0.2 --- 10.1.0.1 node 10.2.0.1 --- machines 10.2.0.11 to 10.2.0.20
//
// It ends with the process.
type Network struct{ client, machines place }

// place is a network namespace.
type place struct{ file *os.File }

// NewNetwork makes the network, and starts a server on each machine, which answers with its address by TCP and UDP at
// port 8080. This process must be root in its namespaces.
func NewNetwork() (n *Network, err error) {
	n = &Network{}
	if n.client, err = newPlace(); err != nil {
		return nil, err
	}
	if n.machines, err = newPlace(); err != nil {
		return nil, err
	}
	var machines []string
	for i := firstMachine; i <= lastMachine; i++ {
		machines = append(machines, fmt.Sprintf("10.2.0.%d", i))
	}
	err = errors.Join(
		up("lo"),
		connect("client", n.client, clientGateway, clientAddress),
		connect("machines", n.machines, machinesGateway, machines...),
	)
	if err != nil {
		return nil, fmt.Errorf("make a network: %w", err)
	}
	// The packets of services without endpoints have to be forwarded to be rejected: to anywhere.
	client, err := netlink.LinkByName("client")
	if err != nil {
		return nil, err
	}
	_, services, err := net.ParseCIDR(serviceNet)
	if err != nil {
		return nil, err
	}
	return n, errors.Join(
		netlink.RouteAdd(&netlink.Route{Dst: services, LinkIndex: client.Attrs().Index, Scope: netlink.SCOPE_LINK}),
		os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644),
		// Otherwise a client gets one rejection in a second, and waits after the others.
		os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0o644),
		n.machines.do(func() error { return serve(machines) }),
	)
}

// inThread calls a function in a thread that ends then.
func inThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, which may be in another namespace, ends with the goroutine
		done <- f()
	}()
	return <-done
}

func newPlace() (p place, err error) {
	err = inThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			p.file, err = os.Open("/proc/thread-self/ns/net")
		}
		return err
	})
	if err != nil {
		return p, fmt.Errorf("make a network namespace: %w", err)
	}
	return p, p.do(func() error { return up("lo") })
}

// do calls a function in the namespace. Sockets that it opens stay there.
func (p place) do(f func() error) error {
	return inThread(func() error {
		if err := unix.Setns(int(p.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

func up(name string, addresses ...string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		addr, err := netlink.ParseAddr(address + "/24")
		if err == nil {
			err = netlink.AddrAdd(link, addr)
		}
		if err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(link)
}

// connect links a namespace, which gets addresses, to the node, its gateway.
func connect(name string, p place, gateway string, addresses ...string) error {
	err := netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "node", PeerNamespace: netlink.NsFd(p.file.Fd()),
	})
	if err == nil {
		err = up(name, gateway)
	}
	if err != nil {
		return err
	}
	return p.do(func() error {
		if err := up("node", addresses...); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)})
	})
}

// serve answers at these addresses.
func serve(addresses []string) error {
	l, err := net.Listen("tcp4", fmt.Sprintf(":%d", machinePort))
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(conn.LocalAddr().String())) // a client that is gone
			_ = conn.Close()
		}
	}()
	for _, address := range addresses {
		conn, err := net.ListenPacket("udp4", fmt.Sprintf("%s:%d", address, machinePort))
		if err != nil {
			return err
		}
		go func() {
			buf := make([]byte, 100)
			for {
				_, from, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = conn.WriteTo([]byte(conn.LocalAddr().String()), from) // a client that is gone
			}
		}()
	}
	return nil
}
