// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"net"
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/statekeel/statekeel/example/netagent/desired"
)

const someLinks = `
links:
  - {name: lo, kind: loopback}
  - {name: br0, kind: bridge, mtu: 1450, mac: "02:00:00:00:00:0a"}
  - {name: a0, kind: veth, master: br0, peer: {name: a1, mtu: 1300, up: false, mac: "02:00:00:00:00:01"}}
`

func TestLinksAreCreatedAsDesired(t *testing.T) {
	f := newFixture(t)
	state := f.state(someLinks)
	f.update(state)
	f.effects()
	before := f.link("a0").Attrs().Index
	f.update(state)
	assert.Empty(t, f.effects(), "a second update changes nothing")
	assert.Equal(t, before, f.link("a0").Attrs().Index)

	br := f.link("br0")
	assert.Equal(t, "bridge", br.Type())
	assert.Equal(t, 1450, br.Attrs().MTU)
	assert.Equal(t, "02:00:00:00:00:0a", br.Attrs().HardwareAddr.String())
	assert.NotZero(t, br.Attrs().Flags&net.FlagUp)

	a0, a1 := f.link("a0"), f.link("a1")
	assert.Equal(t, br.Attrs().Index, a0.Attrs().MasterIndex)
	assert.NotZero(t, a0.Attrs().Flags&net.FlagUp)
	assert.Zero(t, a1.Attrs().MasterIndex)
	assert.Zero(t, a1.Attrs().Flags&net.FlagUp)
	assert.Equal(t, 1300, a1.Attrs().MTU)
	assert.Equal(t, "02:00:00:00:00:01", a1.Attrs().HardwareAddr.String())
	assert.Equal(t, a0.Attrs().Index, a1.Attrs().ParentIndex, "they are the ends of one pair")
	assert.NotZero(t, f.link("lo").Attrs().Flags&net.FlagUp)
}

func TestVethsCanSwapTheirEnds(t *testing.T) {
	f := newFixture(t)
	f.update(f.state("links: [{name: a, kind: veth, peer: b}, {name: c, kind: veth, peer: d}]"))
	swapped := f.state("links: [{name: a, kind: veth, peer: c}, {name: b, kind: veth, peer: d}]")
	f.update(swapped)
	f.update(swapped)
	assert.Equal(t, "c", peerName(f.link("a")))
	assert.Equal(t, "d", peerName(f.link("b")))
}

func TestLinkWaitsForItsBridge(t *testing.T) {
	f := newFixture(t)
	state := f.state(someLinks)
	err := update(f, f.Links, state.Links[2].Spec)
	assert.Equal(t, "Blocked", outcome(err))
	assert.EqualError(t, err, `link "br0" (not asked for here) is missing`)
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
	require.NoError(t, update(f, f.Links, state.Links[2].Spec), "whichever program created the bridge")
	assert.Equal(t, f.link("br0").Attrs().Index, f.link("a0").Attrs().MasterIndex)
}

func TestRecreatedLinkReportsAllEffects(t *testing.T) {
	f := newFixture(t)
	f.update(f.state("links: [{name: br0, kind: bridge}, {name: a0, kind: veth, peer: a1, master: br0}]"))
	effects := f.effects()
	assert.Equal(t, desired.UndidAll, effects["br0"], "it has a port now")
	assert.Equal(t, desired.UndidAll&^desired.UndidLink, effects["a0"])
	assert.Equal(t, desired.UndidAll, effects["a1"])
}

func TestLinksWithoutARowAreRemoved(t *testing.T) {
	f := newFixture(t)
	state := f.state(someLinks)
	f.update(state)
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "stray0"}}))
	f.byHand(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "stray1"}, PeerName: "stray2"}))
	found := list(f, f.Links)
	require.Len(t, found, 7)
	converge(f, f.Links, state.Links)
	assert.Equal(t, []string{"a0", "a1", "br0"}, f.linkNames())
	for _, row := range found {
		require.NoError(t, f.Links.Delete(t.Context(), f.in.DB.ReadTxn(), 1, row))
	}
	assert.Equal(t, []string{"a0", "a1", "br0"}, f.linkNames(), "they have rows by now")
	converge(f, f.Links, nil)
	assert.Empty(t, f.linkNames())
}

func TestLinksThatARowNeedsAreKept(t *testing.T) {
	f := newFixture(t)
	state := f.state(`
addresses: [{dev: theirs0, cidr: 10.0.0.1/24}]
routes: [{dst: 10.1.0.0/16, dev: theirs1}]
sysctls: {net.ipv4.conf.theirs2.rp_filter: 2}
links: [{name: a0, kind: veth, peer: a1, master: theirs3}]
`)
	for _, name := range []string{"theirs0", "theirs1", "theirs3", "stray"} {
		f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}))
	}
	f.byHand(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "other"}, PeerName: "theirs2"}))
	f.byHand(netlink.LinkSetUp(f.link("theirs1")))
	f.update(state)
	f.write(func(txn statedb.WriteTxn) { // even if another route wins
		require.NoError(t, f.in.Tables.Routes.DeleteAll(txn))
		_, _, err := f.in.Tables.RoutesWanted.Insert(txn, &desired.Route{Spec: state.Routes[0].Spec})
		require.NoError(t, err)
	})
	converge(f, f.Links, state.Links)
	assert.Equal(t, []string{"a0", "a1", "other", "theirs0", "theirs1", "theirs2", "theirs3"}, f.linkNames(),
		"other is the other end of theirs2")
	assert.Len(t, list(f, f.Links), 2, "theirs are not listed")

	require.NoError(t, remove(f, f.Addresses, state.Addresses[0].Spec))
	require.NoError(t, remove(f, f.Sysctls, state.Sysctls[0].Spec))
	converge(f, f.Links, state.Links)
	assert.Equal(t, []string{"a0", "a1", "theirs1", "theirs3"}, f.linkNames(), "nothing needs the others any more")
}

// Until all tables are filled, a row may come that needs a link.
func TestListingWaitsForTheRows(t *testing.T) {
	f := newFixture(t)
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
	var filled func(statedb.WriteTxn)
	f.write(func(txn statedb.WriteTxn) { filled = f.in.Tables.Addresses.RegisterInitializer(txn, "test") })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := f.Links.List(ctx, f.in.DB.ReadTxn(), func(row *desired.Link) bool {
		require.Fail(t, "it has not waited", "%v", row)
		return false
	})
	assert.ErrorIs(t, err, context.Canceled)
	row := &desired.Address{Spec: f.state(someAddresses).Addresses[0].Spec}
	written := make(chan error)
	go func() {
		txn := f.in.DB.WriteTxn(f.in.Tables.Addresses)
		_, _, err := f.in.Tables.Addresses.Insert(txn, row)
		filled(txn)
		txn.Commit()
		written <- err
	}()
	assert.Empty(t, list(f, f.Links))
	require.NoError(t, <-written)
}

func TestAVethEndIsLeftToTheOthersUpdate(t *testing.T) {
	f := newFixture(t)
	state := f.state(someLinks)
	f.update(state)
	f.byHand(netlink.LinkSetName(f.link("a1"), "stray"))
	converge(f, f.Links, state.Links)
	assert.Equal(t, []string{"a0", "br0", "stray"}, f.linkNames(), "removing one end would remove the other")
	assert.Equal(t, []string{"a0", "a1"}, f.differs())
	f.update(state)
	assert.Equal(t, []string{"a0", "a1", "br0"}, f.linkNames())
}

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

func TestAddressWithoutItsLinkWaits(t *testing.T) {
	f := newFixture(t)
	err := update(f, f.Addresses, f.state(someAddresses).Addresses[0].Spec)
	assert.Equal(t, "Blocked", outcome(err))
	assert.EqualError(t, err, `link "br0" (not asked for here) is missing`)
}
