// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"testing"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/observed"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// file is a row: a state file.
type file struct{ YAML string }

func (f *file) String() string { return f.YAML }

var theFile = statedb.Index[*file, string]{
	Name: "name", Unique: true, FromKey: index.String,
	FromObject: func(*file) index.KeySet { return index.NewKeySet(index.String("state")) },
}

func newFiles(db *statedb.DB) (statedb.RWTable[*file], error) {
	return statedb.NewTableAny(db, "files", nil, nil, theFile)
}

// The states: two bridges with a cable each, then other settings of the same, then one bridge less.
const (
	first = `
links: [{name: br0, kind: bridge}, {name: br1, kind: bridge}, {name: a, kind: veth, master: br0, peer: b}]
addresses: [{dev: br0, cidr: 10.10.0.1/24}, {dev: b, cidr: 10.10.0.2/24}, {dev: br1, cidr: 10.20.0.1/24}]
routes: [{dst: 10.30.0.0/16, via: 10.10.0.9, dev: br0}, {dst: 10.40.0.0/16, via: 10.20.0.9, metric: 50}]
sysctls: {net.ipv4.conf.br0.rp_filter: 2}
`
	second = `
links: [{name: br0, kind: bridge, mtu: 1400}, {name: br1, kind: bridge}, {name: a, kind: veth, master: br1, peer: b}]
addresses: [{dev: br0, cidr: 10.10.0.1/24}, {dev: br1, cidr: 10.20.0.1/24}, {dev: br1, cidr: 10.21.0.1/24}]
routes: [{dst: 10.30.0.0/16, via: 10.20.0.8}, {dst: 10.50.0.0/16, dev: br0}, {dst: 10.40.0.0/16, via: 10.20.0.9, metric: 60}]
sysctls: {net.ipv4.conf.br1.rp_filter: 1}
`
	third = `
links: [{name: br0, kind: bridge}]
addresses: [{dev: br0, cidr: 10.11.0.1/24}]
routes: [{dst: 10.30.0.0/16, via: 10.11.0.8}]
sysctls: {net.ipv4.conf.br0.rp_filter: 1}
`
)

// whole is the network namespace of the process, as an agent leaves it.
type whole struct{ testing.TB }

// newWhole removes what an earlier run has left.
func newWhole(t testing.TB) whole {
	links, err := netlink.LinkList()
	require.NoError(t, err)
	for _, l := range links {
		if l.Attrs().Index != loopbackIndex {
			_ = netlink.LinkDel(l) // a peer may be gone with the other end
		}
	}
	return whole{t}
}

func (w whole) dump() map[string]string {
	has := map[string]string{}
	links, err := dump("links", netlink.LinkList)
	require.NoError(w, err)
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, l := range links {
		a := l.Attrs()
		if a.Index == loopbackIndex {
			continue
		}
		has["link "+a.Name] = fmt.Sprintf("%s mtu %d up %t of %q", l.Type(), a.MTU, a.Flags&net.FlagUp != 0, names[a.MasterIndex])
		addresses, err := netlink.AddrList(l, netlink.FAMILY_V4)
		require.NoError(w, err)
		for _, addr := range addresses {
			has["address "+addr.IPNet.String()+" of "+a.Name] = "present"
		}
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	require.NoError(w, err)
	for _, r := range routes {
		if r.Protocol == unix.RTPROT_KERNEL {
			continue // it belongs to an address
		}
		has[fmt.Sprintf("route %s metric %d", r.Dst, r.Priority)] = fmt.Sprintf("via %s on %s", r.Gw, names[r.LinkIndex])
	}
	for _, name := range []string{"net.ipv4.conf.br0.rp_filter", "net.ipv4.conf.br1.rp_filter"} {
		if value, err := readSysctl(config.Sysctl{Name: name}); err == nil {
			has["sysctl "+name] = value
		}
	}
	return has
}

// program starts what the agent starts.
func (w whole) program(e *reconcilertest.Env[*file]) {
	tables, err := desired.NewTables(e.DB)
	require.NoError(e, err)
	seen, err := observed.NewLinks(e.DB)
	require.NoError(e, err)
	store, err := desired.NewStore(e.DB, tables, nil, nil)
	require.NoError(e, err)
	e.Cleanup(store.Close)
	target := NewTarget(desired.Surroundings{DB: e.DB, Tables: tables, Links: seen, Undid: tables.Undid}, slog.New(slog.DiscardHandler))
	best, err := desired.NewBestRoutes(derive.Config[*desired.Route]{Registry: e.Registry}, e.DB, tables)
	require.NoError(e, err)
	e.Cleanup(best.Close)
	tables.Loops = desired.Loops{
		Links:     reconcilertest.Start(e, desired.Config(tables.Links, target.Links)),
		Addresses: reconcilertest.Start(e, desired.Config(tables.Addresses, target.Addresses)),
		Routes:    reconcilertest.Start(e, desired.Config(tables.Routes, target.Routes)),
		Sysctls:   reconcilertest.Start(e, desired.Config(tables.Sysctls, target.Sysctls)),
	}
	run := func(job func(context.Context, cell.Health) error) {
		reconcilertest.Go(e, func(ctx context.Context) error { return job(ctx, e.Health) })
	}
	run(target.Observe)
	reconcilertest.Go(e, best.Run)
	reconcilertest.Go(e, func(ctx context.Context) error {
		for _, watch := e.Table.Initialized(e.DB.ReadTxn()); ; {
			select {
			case <-ctx.Done():
				return nil
			case <-watch:
			}
			var f *file
			var found bool
			f, _, watch, found = e.Table.GetWatch(e.DB.ReadTxn(), theFile.Query("state"))
			var state config.State
			if found {
				if state, err = config.Parse("state", []byte(f.YAML)); err != nil {
					return err
				}
			}
			if err := store.Apply(state); err != nil {
				return err
			}
		}
	})
}

// The whole of the operations: links, addresses, routes and sysctls, with the derivation of routes and the feed of links.
func TestTheKernelEndsAsAFreshStartLeavesIt(t *testing.T) {
	reconcilertest.Check(t, reconcilertest.Subject[*file, whole]{
		RealTime: true, Runs: 80, Target: newWhole, Dump: whole.dump, Table: newFiles,
		States: func(*rand.Rand) [][]*file { return [][]*file{{{first}}, {{second}}, {{third}}} },
		Start:  func(e *reconcilertest.Env[*file], w whole) { w.program(e) },
		Outside: map[string]func(whole){
			"the bridge is deleted": func(whole) {
				if l, err := netlink.LinkByName("br0"); err == nil {
					_ = netlink.LinkDel(l)
				}
			},
			"links are added and go down": func(whole) {
				_ = netlink.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "foreign0"}})
				if l, err := netlink.LinkByName("br0"); err == nil {
					_ = netlink.LinkSetDown(l)
				}
			},
			"the addresses of the bridge are others": func(whole) {
				if l, err := netlink.LinkByName("br0"); err == nil {
					all, _ := netlink.AddrList(l, unix.AF_UNSPEC)
					for _, a := range all {
						_ = netlink.AddrDel(l, &a)
					}
					_ = netlink.AddrAdd(l, &netlink.Addr{IPNet: cidr("10.99.0.1/24")})
				}
			},
			"a sysctl changes": func(whole) {
				_ = os.WriteFile("/proc/sys/net/ipv4/conf/br0/rp_filter", []byte("0"), 0)
			},
			"a route is replaced": func(whole) {
				_ = netlink.RouteReplace(&netlink.Route{Dst: cidr("10.30.0.0/16"), Type: unix.RTN_BLACKHOLE})
			},
		},
		// The kernel answers what it did, when it did it.
		Without: []string{"success without effect", "late effect"},
	})
}
