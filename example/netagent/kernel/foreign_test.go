// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/kernel/kerneltest"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// tryIP runs ip(8) in the namespace of the thread, as another program would.
func tryIP(t testing.TB, args string) error {
	t.Helper()
	path, err := exec.LookPath("ip")
	if err != nil {
		t.Skip("this needs the program ip of iproute2")
	}
	_, err = exec.Command(path, strings.Fields(args)...).Output()
	return err
}

// ip is tryIP that must succeed.
func (f *fixture) ip(args string) {
	f.Helper()
	err := tryIP(f, args)
	var said *exec.ExitError
	if assert.ObjectsAreEqual(nil, err) {
		return
	}
	require.ErrorAs(f, err, &said, "ip %s", args)
	require.NoError(f, err, "ip %s: %s", args, said.Stderr)
}

// output returns what ip(8) prints.
func (f *fixture) output(args string) string {
	f.Helper()
	out, err := exec.Command("ip", strings.Fields(args)...).Output()
	require.NoError(f, err)
	return string(out)
}

// A veth whose other end a row came to need since the listing stays.
func TestVethIsKeptForItsPresentOtherEnd(t *testing.T) {
	f := newFixture(t)
	f.byHand(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "stray0"}, PeerName: "stray1"}))
	found := list(f, f.Links)
	f.byHand(netlink.LinkSetName(f.link("stray1"), "hand0"))
	f.write(func(txn statedb.WriteTxn) {
		_, _, err := f.in.Tables.Addresses.Insert(txn, &desired.Address{Spec: config.Address{Dev: "hand0", CIDR: netip.MustParsePrefix("10.0.0.1/24")}})
		require.NoError(t, err)
	})
	for _, row := range found {
		if row.Spec.Kind == config.Veth {
			require.NoError(t, f.Links.Delete(t.Context(), f.in.DB.ReadTxn(), 1, row))
		}
	}
	assert.Equal(t, []string{"hand0", "stray0"}, f.linkNames())
}

const exotic = `
links: [{name: br0, kind: bridge}, {name: br1, kind: bridge}]
addresses: [{dev: br0, cidr: 10.0.0.1/24}, {dev: br0, cidr: 'fd00::1/64'}]
routes:
  - {dst: 10.1.0.0/16, via: 10.0.0.2}
  - {dst: 10.2.0.0/16, dev: br0, table: 100}
  - {dst: 'fd01::/48', via: 'fd00::2'}
`

func (f *fixture) addNexthops() {
	f.Helper()
	f.ip("link set lo up")
	for _, args := range kerneltest.Nexthops {
		f.ip(args)
	}
}

// allRoutes returns the routes of all tables but that of the kernel, which may have more at any time.
func (f *fixture) allRoutes() (all []string) {
	f.Helper()
	for _, line := range strings.Split(f.output("route show table all")+f.output("-6 route show table all"), "\n") {
		if !strings.Contains(line, "proto kernel") {
			all = append(all, line)
		}
	}
	return all
}

func TestRouteOfAnyKindWithoutARowIsRemoved(t *testing.T) {
	f := newFixture(t)
	state := f.state(exotic)
	f.update(state)
	f.addNexthops()
	before := f.allRoutes()
	nexthops := f.output("nexthop")
	for _, route := range kerneltest.RoutesTo("10.66.0.0/16", "fd66::/48") {
		f.ip("route add " + route)
		converge(f, f.Routes, state.Routes)
		assert.Equal(t, before, f.allRoutes(), route)
	}
	assert.Equal(t, nexthops, f.output("nexthop"))
}

func TestRouteOfAnyKindInPlaceOfARowsIsReplaced(t *testing.T) {
	f := newFixture(t)
	state := f.state(exotic)
	f.update(state)
	f.addNexthops()
	before := f.allRoutes()
	for _, route := range kerneltest.RoutesTo("10.1.0.0/16", "fd01::/48") {
		for _, how := range []string{"add", "replace"} {
			if tryIP(t, "route "+how+" "+route) != nil {
				continue // the row's own has its place
			}
			assert.NotEmpty(t, f.differs(), "%s %s", how, route)
			f.update(state)
			assert.Equal(t, before, f.allRoutes(), "%s %s", how, route)
			assert.Empty(t, f.differs(), "%s %s", how, route)
		}
	}
}

// shown returns what ip(8) shows of the addresses of br0. The kernel's own is not there at first, and without brd it has
// the same broadcast address.
func (f *fixture) shown() (all []string) {
	f.Helper()
	for _, line := range strings.Split(strings.ReplaceAll(f.output("-o addr show dev br0"), " brd 10.0.0.255", ""), "\n") {
		if !strings.Contains(line, "fe80:") {
			all = append(all, strings.TrimLeft(line, "0123456789: "))
		}
	}
	slices.Sort(all)
	return all
}

func TestAddressOfAnyKindIsMadeAsWanted(t *testing.T) {
	f := newFixture(t)
	state := f.state("links: [{name: br0, kind: bridge}]\naddresses: [{dev: br0, cidr: 10.0.0.1/24}, {dev: br0, cidr: 'fd00::1/64'}, {dev: br0, cidr: 10.0.0.9/32}]")
	f.update(state)
	before := f.shown()
	for _, kind := range kerneltest.AddressKinds {
		for _, address := range []string{"10.0.0.1/24", "fd00::1/64", "10.0.0.9/32"} {
			f.ip("addr del " + address + " dev br0")
			add := "addr add " + address + " dev br0 " + kind
			if strings.Contains(kind, "peer") {
				ip, length, _ := strings.Cut(address, "/")
				peer := "peer 10.0.9.9/"
				if strings.Contains(ip, ":") {
					peer = "peer fd09::9/"
				}
				add = "addr add " + ip + " " + peer + length + " dev br0"
			}
			if tryIP(t, add) != nil {
				f.update(state)
				continue // this family has nothing of the kind
			}
			if !assert.ObjectsAreEqual(before, f.shown()) { // not where the family ignores it
				assert.NotEmpty(t, f.differs(), add)
			}
			f.update(state)
			assert.Empty(t, f.differs(), add)
			assert.Equal(t, before, f.shown(), add)
		}
	}
}

func TestAddressOfAnyKindWithoutARowIsRemoved(t *testing.T) {
	f := newFixture(t)
	f.update(f.state("links: [{name: br0, kind: bridge}]"))
	before := f.shown()
	for _, kind := range append(slices.Clone(kerneltest.AddressKinds), "", "nodad", "label br0:1", "broadcast +") {
		for _, address := range []string{"10.66.0.1/24", "fd66::1/64", "10.66.0.1/32"} {
			if kind == "mngtmpaddr" || kind == "peer" || tryIP(t, "addr add "+address+" dev br0 "+kind) != nil {
				continue
			}
			converge(f, f.Addresses, nil)
			assert.Equal(t, before, f.shown(), "%s %s", address, kind)
		}
	}
	f.ip("addr add 10.66.0.1 peer 10.67.0.2/24 dev br0")
	f.ip("addr add 10.66.0.1 peer 10.68.0.2/24 dev br0")
	f.ip("addr add fd66::1 peer fd67::2/64 dev br0")
	converge(f, f.Addresses, nil)
	assert.Equal(t, before, f.shown())
}

// An address is not taken away and given back where the kernel can change it.
func TestAddressIsChangedWithoutAGap(t *testing.T) {
	f := newFixture(t)
	state := f.state("links: [{name: br0, kind: bridge}]\naddresses: [{dev: br0, cidr: 10.0.0.1/24}, {dev: br0, cidr: 'fd00::1/64'}]\nroutes: [{dst: 10.1.0.0/16, via: 10.0.0.2}]")
	f.update(state)
	for _, address := range []string{"10.0.0.1/24", "fd00::1/64"} {
		f.ip("addr change " + address + " dev br0 valid_lft 100 preferred_lft 100")
	}
	assert.Equal(t, []string{"br0/10.0.0.1/24", "br0/fd00::1/64"}, differs(f, f.Addresses))
	removed := make(chan netlink.AddrUpdate, 64)
	done := make(chan struct{})
	require.NoError(t, netlink.AddrSubscribe(removed, done))
	f.update(f.state("links: [{name: br0, kind: bridge}]\naddresses: [{dev: br0, cidr: 10.0.0.1/24}, {dev: br0, cidr: 'fd00::1/64'}]"))
	f.byHand(netlink.AddrAdd(f.link("lo"), &netlink.Addr{IPNet: cidr("10.9.9.9/32")}))
	for update := range removed {
		assert.True(t, update.NewAddr, "%v was removed", update.LinkAddress)
		if update.LinkAddress.IP.Equal(net.IPv4(10, 9, 9, 9)) {
			break
		}
	}
	close(done)
	for range removed { // until it is closed
	}
	assert.Empty(t, f.differs())
	assert.Len(t, f.routes(unix.RT_TABLE_MAIN), 1)
}

func TestAddressOfARouterAdvertisementStays(t *testing.T) {
	f := newFixture(t)
	f.byHand(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "hand0"}, PeerName: "router"}))
	f.byHand(writeSysctl(config.Sysctl{Name: "net.ipv6.conf.hand0.use_tempaddr"}, "2"))
	f.byHand(writeSysctl(config.Sysctl{Name: "net.ipv6.conf.hand0.accept_dad"}, "0"))
	f.byHand(netlink.LinkSetUp(f.link("hand0")))
	advertise(f, "router", netip.MustParsePrefix("2001:db8::/64"))
	deadline := time.Now().Add(patience)
	kernels := func() (all []string) { return f.addresses("hand0") }
	for len(kernels()) < 2 { // one by the identifier of the link, and a temporary one
		require.True(t, time.Now().Before(deadline), "no address by the advertisement")
		<-time.After(5 * time.Millisecond)
	}
	want := kernels()
	require.NoError(t, update(f, f.Addresses, f.state("addresses: [{dev: hand0, cidr: 10.0.0.1/24}]").Addresses[0].Spec))
	for _, row := range list(f, f.Addresses) {
		assert.False(t, slices.Contains(want, row.Spec.CIDR.String()), "%v is the kernel's own", row.Spec)
	}
	converge(f, f.Addresses, f.state("addresses: [{dev: hand0, cidr: 10.0.0.1/24}]").Addresses)
	assert.Equal(t, append([]string{"10.0.0.1/24"}, want...), f.addresses("hand0"))
}

// advertise moves a link into a namespace of its own, and sends a router advertisement by it.
func advertise(f *fixture, link string, prefix netip.Prefix) {
	f.Helper()
	moved, ready := make(chan error), make(chan *os.File)
	reconcilertest.Go(f, func(ctx context.Context) error {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		ns, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		ready <- ns
		if err := <-moved; err != nil {
			return err
		}
		if err := sendAdvertisement(link, prefix); err != nil {
			return err
		}
		<-ctx.Done() // the namespace ends with the thread, and the link with it
		return nil
	})
	ns := <-ready
	err := netlink.LinkSetNsFd(f.link(link), int(ns.Fd()))
	moved <- err
	f.byHand(err)
	f.byHand(ns.Close())
}

func sendAdvertisement(name string, prefix netip.Prefix) error {
	if err := writeSysctl(config.Sysctl{Name: "net.ipv6.conf." + name + ".accept_dad"}, "0"); err != nil {
		return err
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	index := link.Attrs().Index
	for option, value := range map[int]int{unix.IPV6_MULTICAST_HOPS: 255, unix.IPV6_MULTICAST_IF: index} {
		if err := unix.SetsockoptInt(socket, unix.IPPROTO_IPV6, option, value); err != nil {
			return err
		}
	}
	message := []byte{
		134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, // a router for 1800 s
		3, 4, byte(prefix.Bits()), 0xc0, 0, 0, 0x0e, 0x10, 0, 0, 0x0e, 0x10, 0, 0, 0, 0, // a prefix for an hour
	}
	message = append(message, prefix.Addr().AsSlice()...)
	to := &unix.SockaddrInet6{ZoneId: uint32(index), Addr: netip.MustParseAddr("ff02::1").As16()}
	for deadline := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		// The link-local address to send from comes a moment after the link is up.
		if err = unix.Sendto(socket, message, 0, to); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func TestSysctlOfANewLinkIsNotSetBackToTheOldOnes(t *testing.T) {
	f := newFixture(t)
	state := f.state("links: [{name: br0, kind: bridge}]\nsysctls: {net.ipv4.conf.br0.rp_filter: 2}")
	f.update(f.state("links: [{name: br0, kind: bridge}]"))
	f.byHand(writeSysctl(state.Sysctls[0].Spec, "1"))
	f.update(state)
	f.byHand(netlink.LinkDel(f.link("br0")))
	f.update(state)
	require.NoError(t, remove(f, f.Sysctls, state.Sysctls[0].Spec))
	assert.Equal(t, "0", f.sysctl("net.ipv4.conf.br0.rp_filter"), "what the new link had, not the old one")

	f.update(state)
	f.byHand(netlink.LinkDel(f.link("br0")))
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
	f.byHand(writeSysctl(state.Sysctls[0].Spec, "1"))
	require.NoError(t, remove(f, f.Sysctls, state.Sysctls[0].Spec))
	assert.Equal(t, "1", f.sysctl("net.ipv4.conf.br0.rp_filter"), "the agent has not changed this one")
}
