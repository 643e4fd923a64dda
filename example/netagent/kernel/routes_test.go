// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
)

const someRoutes = `
links:
  - {name: br0, kind: bridge}
  - {name: a0, kind: veth, peer: a1, master: br0}
addresses:
  - {dev: br0, cidr: 10.0.0.1/24}
  - {dev: br0, cidr: "fd00::1/64"}
routes:
  - {dst: default, via: 10.0.0.254}
  - {dst: 10.1.0.0/16, dev: a1}
  - {dst: 10.2.0.0/16, dev: a1, scope: host, metric: 5}
  - {dst: 10.3.0.0/16, via: 10.0.0.2, table: 100}
  - {dst: default, via: "fd00::2", table: 1000}
  - {dst: "fd01::/48", via: "fe80::2", dev: br0, metric: 7}
  - {dst: "fd02::/48", dev: a1}
`

// The routes above by table, in the form of the kernel.
var (
	inMain = []string{
		"0.0.0.0/0 via 10.0.0.254 dev br0 metric 0 proto 83 scope universe",
		"10.1.0.0/16 via <nil> dev a1 metric 0 proto 83 scope link",
		"10.2.0.0/16 via <nil> dev a1 metric 5 proto 83 scope host",
		"fd01::/48 via fe80::2 dev br0 metric 7 proto 83 scope universe",
		"fd02::/48 via <nil> dev a1 metric 1024 proto 83 scope universe",
	}
	in100  = []string{"10.3.0.0/16 via 10.0.0.2 dev br0 metric 0 proto 83 scope universe"}
	in1000 = []string{"::/0 via fd00::2 dev br0 metric 1024 proto 83 scope universe"}
)

func (f *fixture) requireRoutes() {
	f.Helper()
	require.Equal(f, inMain, f.routes(unix.RT_TABLE_MAIN))
	require.Equal(f, in100, f.routes(100))
	require.Equal(f, in1000, f.routes(1000))
}

func TestRoutesAreAddedAndTheirChangesUndone(t *testing.T) {
	f := newFixture(t)
	state := f.state(someRoutes)
	f.update(state)
	f.requireRoutes()
	f.update(state)
	f.requireRoutes()
	br, a1 := f.link("br0").Attrs().Index, f.link("a1").Attrs().Index
	for name, breakIt := range map[string]func() error{
		"deleted": func() error {
			return netlink.RouteDel(&netlink.Route{Dst: cidr("10.1.0.0/16"), LinkIndex: a1, Scope: netlink.SCOPE_LINK})
		},
		"deleted from table": func() error { return netlink.RouteDel(&netlink.Route{Dst: cidr("10.3.0.0/16"), Table: 100}) },
		"deleted, of IPv6":   func() error { return netlink.RouteDel(&netlink.Route{Dst: cidr("fd02::/48"), LinkIndex: a1}) },
		"another gateway": func() error {
			return netlink.RouteReplace(&netlink.Route{Dst: cidr("0.0.0.0/0"), Gw: cidr("10.0.0.9/24").IP})
		},
		"another gateway, of IPv6": func() error {
			return netlink.RouteReplace(&netlink.Route{Dst: cidr("::/0"), Gw: cidr("fd00::9/64").IP, Table: 1000})
		},
		"another link": func() error {
			return netlink.RouteReplace(&netlink.Route{Dst: cidr("10.1.0.0/16"), LinkIndex: br, Protocol: Protocol, Scope: netlink.SCOPE_LINK})
		},
		"another scope": func() error {
			return netlink.RouteReplace(&netlink.Route{Dst: cidr("10.1.0.0/16"), LinkIndex: a1, Protocol: Protocol, Scope: netlink.SCOPE_HOST})
		},
		"another protocol": func() error {
			return netlink.RouteReplace(&netlink.Route{Dst: cidr("10.1.0.0/16"), LinkIndex: a1, Protocol: unix.RTPROT_STATIC, Scope: netlink.SCOPE_LINK})
		},
		"another type": func() error {
			return netlink.RouteReplace(&netlink.Route{Dst: cidr("10.1.0.0/16"), Type: unix.RTN_BLACKHOLE, Protocol: Protocol})
		},
		"one beside it": func() error {
			return netlink.RouteAppend(&netlink.Route{Dst: cidr("10.1.0.0/16"), LinkIndex: br, Scope: netlink.SCOPE_LINK})
		},
		"one beside it, of IPv6": func() error {
			return netlink.RouteAppend(&netlink.Route{Dst: cidr("fd02::/48"), LinkIndex: br, Priority: 1024})
		},
		"another type of service": func() error {
			return errors.Join(netlink.RouteDel(&netlink.Route{Dst: cidr("10.1.0.0/16"), Scope: netlink.SCOPE_LINK}),
				netlink.RouteAdd(&netlink.Route{Dst: cidr("10.1.0.0/16"), LinkIndex: a1, Protocol: Protocol, Scope: netlink.SCOPE_LINK, Tos: 16}))
		},
		"link down": func() error { return netlink.LinkSetDown(f.link("br0")) },
		"several gateways": func() error {
			return netlink.RouteReplace(&netlink.Route{Dst: cidr("0.0.0.0/0"), Protocol: Protocol, MultiPath: []*netlink.NexthopInfo{
				{LinkIndex: br, Gw: cidr("10.0.0.254/24").IP}, {LinkIndex: br, Gw: cidr("10.0.0.9/24").IP}}})
		},
	} {
		require.NoError(t, breakIt(), name)
		assert.NotEmpty(t, f.differs(), name)
		f.update(state)
		f.requireRoutes()
		assert.Empty(t, f.differs(), name)
	}
}

func TestTheFormerRouteIsLeftToTheUpdate(t *testing.T) {
	f := newFixture(t)
	f.update(f.state("links: [{name: br0, kind: bridge}]\nroutes: [{dst: 10.1.0.0/16, dev: br0, metric: 5}]"))
	better := f.state("routes: [{dst: 10.1.0.0/16, dev: missing}]")
	converge(f, f.Routes, better.Routes)
	assert.Len(t, f.routes(unix.RT_TABLE_MAIN), 1, "the better one waits for its link")
	assert.Equal(t, []string{"main/10.1.0.0/16"}, differs(f, f.Routes))
	converge(f, f.Routes, nil)
	assert.Empty(t, f.routes(unix.RT_TABLE_MAIN))
}

func TestRouteWaitsForItsLinkThenForItsGateway(t *testing.T) {
	f := newFixture(t)
	state := f.state(`
links: [{name: br0, kind: bridge}]
addresses: [{dev: br0, cidr: 10.0.0.1/24}]
routes: [{dst: 10.1.0.0/16, via: 10.0.0.2}, {dst: 10.2.0.0/24, dev: br0}, {dst: 10.3.0.0/16, via: 10.2.0.2}]
`)
	waits := func(i int, reason string) {
		t.Helper()
		err := update(f, f.Routes, state.Routes[i].Spec)
		assert.Equal(t, "Blocked", outcome(err))
		assert.EqualError(t, err, reason)
	}
	waits(0, `link "br0" (not asked for here) is missing`)
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
	waits(0, `link "br0" (not asked for here, down) is not ready`)
	require.NoError(t, update(f, f.Links, state.Links[0].Spec))
	waits(0, `no address of link "br0" has gateway 10.0.0.2 in its network`)
	f.write(func(txn statedb.WriteTxn) {
		_, _, err := f.in.Tables.Addresses.Insert(txn, &desired.Address{Spec: state.Addresses[0].Spec})
		require.NoError(t, err)
	})
	waits(0, `address "br0/10.0.0.1/24" is not there yet`)
	require.NoError(t, update(f, f.Addresses, state.Addresses[0].Spec))
	require.NoError(t, update(f, f.Routes, state.Routes[0].Spec))

	f.write(func(txn statedb.WriteTxn) {
		_, _, err := f.in.Tables.Routes.Insert(txn, &desired.Route{Spec: state.Routes[1].Spec})
		require.NoError(t, err)
	})
	waits(2, `route "main/10.2.0.0/24" is not there yet`)
	require.NoError(t, update(f, f.Routes, state.Routes[1].Spec))
	require.NoError(t, update(f, f.Routes, state.Routes[2].Spec))
	assert.Len(t, f.routes(unix.RT_TABLE_MAIN), 3)
}

func TestKeysOfKernelAndConfigAgree(t *testing.T) {
	f := newFixture(t)
	state := f.state(someRoutes)
	f.update(state)
	all, err := routeMessages.list()
	require.NoError(t, err)
	var have, want []string
	for _, o := range all {
		if r := readRoute(o); r.protocol == Protocol {
			have = append(have, r.spec.Key())
		}
	}
	for _, r := range state.Routes {
		want = append(want, r.Spec.Key())
	}
	assert.ElementsMatch(t, want, have)
}

func TestRepairsAndRemovalsAreLogged(t *testing.T) {
	f := newFixture(t)
	state := f.state(someRoutes)
	f.update(state)
	assert.Empty(t, f.log.String(), "creating an object is no repair")
	repair := func() {
		t.Helper()
		for _, r := range state.Routes {
			txn := f.in.DB.ReadTxn()
			row, revision, _ := f.in.Tables.Routes.Get(txn, desired.ByKey[config.Route](r.Spec.Key()))
			require.NoError(t, f.Routes.Update(t.Context(), txn, revision, row))
		}
	}
	repair()
	assert.Empty(t, f.log.String(), "nothing was broken")
	f.byHand(netlink.RouteDel(&netlink.Route{Dst: cidr("10.3.0.0/16"), Table: 100}))
	repair()
	assert.Contains(t, f.log.String(), `msg="repaired a change from outside" kind=route name=100/10.3.0.0/16`)
	f.byHand(netlink.RouteAdd(&netlink.Route{Dst: cidr("10.66.0.0/16"), LinkIndex: f.link("br0").Attrs().Index}))
	converge(f, f.Routes, state.Routes)
	assert.Contains(t, f.log.String(), `msg="removed what no row asks for" kind=route name=main/10.66.0.0/16`)
	assert.Equal(t, 2, strings.Count(f.log.String(), "\n"))
}
