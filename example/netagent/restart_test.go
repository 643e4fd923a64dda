// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/kernel/kerneltest"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// between is the state of an agent between two hosts: left, and right behind the bridge br0, whose network is
// 192.0.2.0/24. The links left and right are the test's own. On the way from one host to the other are br0, two
// addresses, a route and a sysctl.
const between = `
links:
  - {name: br0, kind: bridge}
  - {name: br1, kind: bridge, mtu: 1500}
  - {name: v0, kind: veth, peer: v1, master: br1}
addresses:
  - {dev: left, cidr: 10.1.0.1/24}
  - {dev: br0, cidr: 10.2.0.1/24}
  - {dev: br1, cidr: 10.3.0.1/24}
  - {dev: br1, cidr: "fd03::1/64"}
routes:
  - {dst: 192.0.2.0/24, via: 10.2.0.2}
  - {dst: 10.4.0.0/16, via: 10.3.0.2}
  - {dst: 10.5.0.0/16, via: 10.3.0.2, table: 100, metric: 7}
  - {dst: "fd04::/48", via: "fd03::2"}
sysctls:
  net.ipv4.ip_forward: 1
  net.ipv4.ip_default_ttl: 70
  net.ipv4.conf.right.rp_filter: 2
`

// edit is a change of the state, with the requests to the kernel that make it, and those that take it back.
type edit struct {
	from, to    string
	there, back map[string]int
}

var edits = []edit{
	{"routes:\n", "routes:\n  - {dst: 10.6.0.0/16, via: 10.3.0.3}\n", map[string]int{"route": 1}, map[string]int{"route": 1}},
	{"mtu: 1500", "mtu: 1400", map[string]int{"link": 1}, map[string]int{"link": 1}},
	{"addresses:\n", "addresses:\n  - {dev: br1, cidr: 10.7.0.1/24}\n", map[string]int{"address": 1}, map[string]int{"address": 1}},
	{"ttl: 70", "ttl: 71", map[string]int{"sysctl": 1}, map[string]int{"sysctl": 1}},
	// The pair is created, one end becomes a port, and both are set up. The other end goes with the first.
	{"addresses:\n", "  - {name: v2, kind: veth, peer: v3, master: br1}\naddresses:\n", map[string]int{"link": 4}, map[string]int{"link": 1}},
	{"via: 10.3.0.2, table: 100, metric: 7", "dev: br1, table: 100, metric: 8", map[string]int{"route": 2}, map[string]int{"route": 2}},
}

// hosts are the network namespaces of the agent and of two hosts with the agent between them.
type hosts struct {
	*testing.T
	agent, left, right string
}

// newNamespace returns the path of a new network namespace, which exists until the test ends.
func newNamespace(t *testing.T) string {
	opened, errs := make(chan *os.File, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		var ns *os.File
		if err == nil {
			ns, err = os.Open("/proc/thread-self/ns/net")
		}
		opened <- ns
		errs <- err
	}()
	ns := <-opened
	require.NoError(t, <-errs)
	t.Cleanup(func() { require.NoError(t, ns.Close()) })
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.Fd())
}

func newHosts(t *testing.T) *hosts {
	h := &hosts{t, newNamespace(t), newNamespace(t), newNamespace(t)}
	h.connect("left", h.left, "10.1.0", nil)
	h.connect("right", h.right, "10.2.0", &netlink.Addr{IPNet: route("192.0.2.1/32")})
	return h
}

// connect makes a cable from a link of the agent's namespace to a host, .2 in a network in which the agent is .1. extra
// is another address of the host.
func (h *hosts) connect(name, host, network string, extra *netlink.Addr) {
	h.Helper()
	within(h.T, h.agent, func() error {
		ns, err := os.Open(host)
		if err != nil {
			return err
		}
		defer func() { _ = ns.Close() }()
		cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(ns.Fd()))}
		return errors.Join(netlink.LinkAdd(cable), netlink.LinkSetUp(cable))
	})
	within(h.T, host, func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		own := route(network + ".0/24")
		own.IP = net.ParseIP(network + ".2").To4()
		err = errors.Join(
			netlink.LinkSetUp(lo), netlink.LinkSetUp(eth0), netlink.AddrAdd(eth0, &netlink.Addr{IPNet: own}),
			netlink.RouteAdd(&netlink.Route{Dst: route("0.0.0.0/0"), Gw: net.ParseIP(network + ".1")}))
		if err == nil && extra != nil {
			err = netlink.AddrAdd(lo, extra)
		}
		return err
	})
}

// traffic is packets from the left host to the right one and back.
type traffic struct {
	t            *testing.T
	sent, back   atomic.Int64
	stopSending  chan struct{}
	sending, all sync.WaitGroup
}

// send begins to send a packet every 5 ms.
func (h *hosts) send() *traffic {
	h.Helper()
	r := &traffic{t: h.T, stopSending: make(chan struct{})}
	var echo, client *net.UDPConn
	within(h.T, h.right, func() (err error) {
		echo, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7})
		return err
	})
	within(h.T, h.left, func() (err error) {
		client, err = net.DialUDP("udp4", nil, echo.LocalAddr().(*net.UDPAddr))
		return err
	})
	for _, conn := range []*net.UDPConn{echo, client} {
		// A goroutine that is late loses nothing. An error means that the buffer stays as it is.
		_ = conn.SetReadBuffer(1 << 20)
	}
	r.all.Go(func() {
		for buf := make([]byte, 8); ; {
			n, from, err := echo.ReadFromUDP(buf)
			if err != nil {
				return
			}
			_, _ = echo.WriteToUDP(buf[:n], from) // what is lost does not come back
		}
	})
	r.all.Go(func() {
		seen := make(map[uint64]bool)
		for buf := make([]byte, 8); ; {
			if _, err := client.Read(buf); errors.Is(err, net.ErrClosed) {
				return
			} else if err == nil {
				seen[binary.BigEndian.Uint64(buf)] = true
				r.back.Store(int64(len(seen)))
			}
		}
	})
	r.sending.Go(func() {
		for ticker := time.NewTicker(5 * time.Millisecond); ; {
			_, _ = client.Write(binary.BigEndian.AppendUint64(nil, uint64(r.sent.Add(1))))
			select {
			case <-r.stopSending:
				ticker.Stop()
				return
			case <-ticker.C:
			}
		}
	})
	h.Cleanup(func() {
		r.stop()
		_, _ = echo.Close(), client.Close()
		r.all.Wait()
	})
	return r
}

// stop stops sending.
func (r *traffic) stop() {
	select {
	case <-r.stopSending:
	default:
		close(r.stopSending)
	}
	r.sending.Wait()
}

// The agent is killed and started again, and the packets that are routed by what it has made do not notice.
func TestRestartWritesTheDifferenceOnly(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	state := between
	path := write(t, state)
	require.NoError(t, os.Mkdir(filepath.Dir(shellOf(path)), 0o700)) // which the outer process would do
	start := func() *process {
		t.Helper()
		cmd := netagent(t, "-state", path, "-shell", shellOf(path), "-resync", "100ms")
		cmd.Env = append(cmd.Env, asVariable+"="+asInside)
		return startIn(t, h.agent, cmd)
	}
	// writes waits until the agent has made these requests, and no others.
	writes := func(p *process, want map[string]int) {
		t.Helper()
		p.untilHealthy()
		p.until("it has changed the kernel", func() bool { return maps.Equal(want, p.vars().Writes) })
		p.untilResyncs(2)
		require.Equal(t, want, p.vars().Writes)
	}

	p := start()
	p.untilHealthy()
	p.inside(func() error {
		right, err := netlink.LinkByName("right")
		if err != nil {
			return err
		}
		bridge, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMaster(right, bridge)
	})
	var seen *kerneltest.Routes
	within(t, h.agent, func() (err error) {
		seen, err = kerneltest.WatchRoutes(route("192.0.2.0/24"))
		return err
	})
	packets := h.send()
	eventually(t, "a packet has come back", func() bool { return packets.back.Load() > 0 })

	toggled := make(map[int]bool)
	toggle := func(i int) (want map[string]int) {
		from, to, want := edits[i].from, edits[i].to, edits[i].there
		if toggled[i] {
			from, to, want = to, from, edits[i].back
		}
		toggled[i] = !toggled[i]
		require.Contains(t, state, from)
		state = strings.Replace(state, from, to, 1)
		require.NoError(t, writeFile(path, state))
		return want
	}
	total := make(map[string]int)
	n := long.Times(10)
	for i := range n {
		require.Equal(t, -1, p.stop(syscall.SIGKILL))
		want := map[string]int{}
		if i%2 == 0 {
			want = toggle(i / 2 % len(edits))
		} else {
			p = start() // and kill it while it adopts
			require.Equal(t, -1, p.stop(syscall.SIGKILL))
		}
		p = start()
		writes(p, want)
		for kind, count := range p.vars().Writes {
			total[kind] += count
		}
		for name, key := range map[string]string{
			"links": "br0", "addresses": "left/10.1.0.1/24", "routes": "main/192.0.2.0/24", "sysctls": "net.ipv4.ip_forward",
		} {
			events := p.explain(name, key).Operations
			require.Len(t, events, 1, key)
			require.Equal(t, inspect.CauseAdopted, events[0].Cause, key)
		}
	}
	want := p.vars().Writes
	for kind, count := range toggle(0) {
		want[kind] += count
	}
	writes(p, want)

	packets.stop()
	eventually(t, "every packet has come back", func() bool { return packets.back.Load() == packets.sent.Load() })
	var changes []int
	p.inside(func() (err error) {
		changes, err = seen.End()
		return err
	})
	assert.Empty(t, changes, "of the route that the packets take")
	t.Logf("%d restarts, %d packets, requests that change the kernel: %v", n, packets.sent.Load(), total)
}
