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
	"github.com/statekeel/statekeel/example/netagent/kernel/kerneltest"
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

func TestRouteOfAnotherMetricTakesItsPlace(t *testing.T) {
	f := newFixture(t)
	f.update(f.state("links: [{name: br0, kind: bridge}, {name: br1, kind: bridge}]\naddresses: [{dev: br0, cidr: 10.0.0.1/24}, {dev: br0, cidr: 'fd00::1/64'}]"))
	for _, c := range []struct {
		route, want string
		counts      []int // of the routes to the destination, after each change by the one Update
	}{
		{"{dst: 10.1.0.0/16, via: 10.0.0.2}", "10.1.0.0/16 via 10.0.0.2 dev br0 metric 0 proto 83 scope universe", []int{1}},
		{"{dst: 10.1.0.0/16, via: 10.0.0.2, metric: 5}", "10.1.0.0/16 via 10.0.0.2 dev br0 metric 5 proto 83 scope universe", []int{2, 1}},
		{"{dst: 10.1.0.0/16, dev: br1, metric: 3}", "10.1.0.0/16 via <nil> dev br1 metric 3 proto 83 scope link", []int{2, 1}},
		{"{dst: 10.1.0.0/16, via: 10.0.0.3, metric: 3}", "10.1.0.0/16 via 10.0.0.3 dev br0 metric 3 proto 83 scope universe", []int{1}},
		{"{dst: 10.1.0.0/16, via: 10.0.0.3}", "10.1.0.0/16 via 10.0.0.3 dev br0 metric 0 proto 83 scope universe", []int{2, 1}},
		{"{dst: 'fd01::/48', via: 'fd00::2'}", "fd01::/48 via fd00::2 dev br0 metric 1024 proto 83 scope universe", []int{1}},
		{"{dst: 'fd01::/48', via: 'fd00::2', metric: 5}", "fd01::/48 via fd00::2 dev br0 metric 5 proto 83 scope universe", []int{2, 1}},
		{"{dst: 'fd01::/48', dev: br1, metric: 6}", "fd01::/48 via <nil> dev br1 metric 6 proto 83 scope universe", []int{2, 1}},
		{"{dst: 'fd01::/48', via: 'fd00::3', metric: 6}", "fd01::/48 via fd00::3 dev br0 metric 6 proto 83 scope universe", []int{1}},
	} {
		route, err := config.ParseRoute("test", []byte(c.route))
		require.NoError(t, err)
		if route.Dev == "" {
			route.Dev = "br0"
		}
		seen, err := kerneltest.WatchRoutes(cidr(route.Dst.String()))
		require.NoError(t, err)
		require.NoError(t, update(f, f.Routes, route), c.route)
		counts, err := seen.End()
		require.NoError(t, err)
		assert.Equal(t, c.counts, counts, c.route)
		var have []string
		for _, line := range f.routes(unix.RT_TABLE_MAIN) {
			if strings.HasPrefix(line, route.Dst.String()) {
				have = append(have, line)
			}
		}
		assert.Equal(t, []string{c.want}, have)
	}
	assert.Empty(t, f.log.String(), "nothing is a stray or a repair")
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

func TestDeletingARouteTwiceIsNoError(t *testing.T) {
	f := newFixture(t)
	state := f.state(someRoutes)
	f.update(state)
	for range 2 {
		for _, r := range state.Routes {
			require.NoError(t, remove(f, f.Routes, r.Spec))
		}
	}
	for _, table := range []int{unix.RT_TABLE_MAIN, 100, 1000} {
		assert.Empty(t, f.routes(table))
	}
}

func TestRoutesWithoutARowAreRemoved(t *testing.T) {
	f := newFixture(t)
	f.byHand(netlink.RouteAdd(&netlink.Route{Dst: cidr("10.67.0.0/16"), Type: unix.RTN_BLACKHOLE}))
	f.byHand(netlink.RouteAdd(&netlink.Route{Dst: cidr("10.67.0.0/16"), Type: unix.RTN_BLACKHOLE, Table: 88, Protocol: Protocol}))
	converge(f, f.Routes, nil)
	for _, table := range []int{unix.RT_TABLE_MAIN, 88} {
		all, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
		require.NoError(t, err)
		assert.Empty(t, all, "an earlier agent may have had rows of table 88")
	}
	state := f.state(someRoutes)
	f.update(state)
	br := f.link("br0").Attrs().Index
	for _, stray := range []netlink.Route{
		{Dst: cidr("10.66.0.0/16"), LinkIndex: br},
		{Dst: cidr("10.1.0.0/16"), LinkIndex: br, Priority: 9},
		{Dst: cidr("10.66.0.0/16"), LinkIndex: br, Priority: 9, Protocol: Protocol},
		{Dst: cidr("10.67.0.0/16"), Type: unix.RTN_BLACKHOLE},
		{Dst: cidr("10.66.0.0/16"), LinkIndex: br, Table: 100},
		{Dst: cidr("10.68.0.0/16"), Gw: cidr("10.0.0.3/24").IP, Table: 1000},
		{Dst: cidr("fd66::/48"), LinkIndex: br},
		{Dst: cidr("::/0"), LinkIndex: br, Priority: 1},
		{Dst: cidr("0.0.0.0/0"), LinkIndex: br, Table: 100},
	} {
		f.byHand(netlink.RouteAdd(&stray))
	}
	f.byHand(netlink.RouteAdd(&netlink.Route{Dst: cidr("10.66.0.0/16"), LinkIndex: br, Table: 77}))
	converge(f, f.Routes, state.Routes)
	assert.Equal(t, []string{"main/10.1.0.0/16"}, f.differs(), "one of another metric is beside it")
	f.update(state)
	f.requireRoutes()
	assert.Len(t, f.routes(77), 1, "the table never had a row")

	kernels := f.kernelRoutes()
	converge(f, f.Routes, nil)
	assert.Empty(t, f.routes(unix.RT_TABLE_MAIN))
	assert.Empty(t, f.routes(100), "a table stays managed after its last row")
	assert.Subset(t, f.kernelRoutes(), kernels, "it may have created more since")
}

// kernelRoutes returns the routes that the kernel itself made, in all tables.
func (f *fixture) kernelRoutes() (routes []string) {
	all, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{}, netlink.RT_FILTER_TABLE)
	require.NoError(f, err)
	for _, r := range all {
		if r.Protocol == unix.RTPROT_KERNEL {
			routes = append(routes, r.String())
		}
	}
	require.NotEmpty(f, routes)
	return routes
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
