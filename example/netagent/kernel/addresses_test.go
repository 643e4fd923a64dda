// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/desired"
)

const someAddresses = `
links:
  - {name: lo, kind: loopback}
  - {name: br0, kind: bridge}
addresses:
  - {dev: br0, cidr: 10.0.0.1/24}
  - {dev: br0, cidr: 10.0.0.2/24}
  - {dev: br0, cidr: "fd00::1/64"}
  - {dev: lo, cidr: 127.0.0.1/8}
  - {dev: lo, cidr: 192.0.2.1/32}
`

func TestAddressesAreAddedToLinks(t *testing.T) {
	f := newFixture(t)
	state := f.state(someAddresses)
	f.update(state)
	assert.Equal(t, []string{"10.0.0.1/24", "10.0.0.2/24", "fd00::1/64"}, f.addresses("br0"))
	assert.Equal(t, []string{"127.0.0.1/8", "192.0.2.1/32", "::1/128"}, f.addresses("lo"))
	addrs, err := netlink.AddrList(f.link("br0"), netlink.FAMILY_V6)
	require.NoError(t, err)
	for _, addr := range addrs {
		if !addr.IP.IsLinkLocalUnicast() {
			assert.Zero(t, addr.Flags&unix.IFA_F_TENTATIVE, "it can be used at once")
		}
	}
	f.effects()
	f.update(state)
	assert.Empty(t, f.effects(), "a second update changes nothing")
}

func TestAddressRemovedByHandIsAddedAgain(t *testing.T) {
	f := newFixture(t)
	state := f.state(someAddresses)
	f.update(state)
	f.effects()
	f.byHand(netlink.AddrDel(f.link("br0"), &netlink.Addr{IPNet: cidr("10.0.0.1/24")}))
	f.byHand(netlink.AddrDel(f.link("br0"), &netlink.Addr{IPNet: cidr("fd00::1/64")}))
	assert.Equal(t, []string{"br0/10.0.0.1/24", "br0/10.0.0.2/24", "br0/fd00::1/64"}, f.differs(),
		"the kernel took 10.0.0.2 along")
	f.update(state)
	assert.Empty(t, f.differs())
	assert.Equal(t, []string{"10.0.0.1/24", "10.0.0.2/24", "fd00::1/64"}, f.addresses("br0"))
	assert.Equal(t, map[string]desired.Effect{"br0": desired.UndidRoutes}, f.effects())
}

func TestAnotherPrefixLengthReplacesTheAddress(t *testing.T) {
	f := newFixture(t)
	f.update(f.state("links: [{name: br0, kind: bridge}]\naddresses: [{dev: br0, cidr: 10.0.0.1/24}, {dev: br0, cidr: 'fd00::1/64'}]"))
	f.update(f.state("links: [{name: br0, kind: bridge}]\naddresses: [{dev: br0, cidr: 10.0.0.1/16}, {dev: br0, cidr: 'fd00::1/48'}]"))
	assert.Equal(t, []string{"10.0.0.1/16", "fd00::1/48"}, f.addresses("br0"))
}

func TestAddressWithoutItsLinkWaits(t *testing.T) {
	f := newFixture(t)
	err := update(f, f.Addresses, f.state(someAddresses).Addresses[0].Spec)
	assert.Equal(t, "Blocked", outcome(err))
	assert.EqualError(t, err, `link "br0" (not asked for here) is missing`)
}

func TestDeletingAnAddressTwiceIsNoError(t *testing.T) {
	f := newFixture(t)
	state := f.state(someAddresses)
	f.update(state)
	f.effects()
	for range 2 {
		require.NoError(t, remove(f, f.Addresses, state.Addresses[0].Spec))
	}
	assert.NotContains(t, f.addresses("br0"), "10.0.0.1/24")
	assert.Equal(t, map[string]desired.Effect{"br0": desired.UndidAddresses | desired.UndidRoutes}, f.effects(),
		"the kernel may have taken 10.0.0.2 along")
	f.byHand(netlink.LinkDel(f.link("br0")))
	assert.NoError(t, remove(f, f.Addresses, state.Addresses[1].Spec))
}

func TestAddressesWithoutARowAreRemoved(t *testing.T) {
	f := newFixture(t)
	state := f.state(someAddresses)
	f.update(state)
	f.byHand(netlink.AddrAdd(f.link("br0"), &netlink.Addr{IPNet: cidr("10.66.0.1/24")}))
	f.byHand(netlink.AddrAdd(f.link("br0"), &netlink.Addr{IPNet: cidr("fd66::1/64")}))
	f.byHand(netlink.AddrAdd(f.link("lo"), &netlink.Addr{IPNet: cidr("10.66.0.2/32")}))
	converge(f, f.Addresses, state.Addresses)
	assert.Equal(t, []string{"10.0.0.1/24", "10.0.0.2/24", "fd00::1/64"}, f.addresses("br0"))
	assert.Equal(t, []string{"127.0.0.1/8", "192.0.2.1/32", "::1/128"}, f.addresses("lo"))

	converge(f, f.Addresses, nil)
	assert.Empty(t, f.addresses("br0"))
	assert.Equal(t, []string{"127.0.0.1/8", "::1/128"}, f.addresses("lo"), "the kernel's own objects stay")
}
