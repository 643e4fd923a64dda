// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/observed"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// patience is how long a test waits for what takes milliseconds on an idle machine.
const patience = time.Minute

// followed is a namespace with a feed of its links.
type followed struct {
	*fixture
	feed   *feed
	health *health.Registry
	stop   func()

	markers int

	mu    sync.Mutex
	undid map[string]desired.Effect
}

// follow starts a feed in the test's namespace, after prepare has changed it. The feed ends with the test.
func follow(t *testing.T, prepare func(*feed)) *followed {
	f := &followed{fixture: newFixture(t), undid: make(map[string]desired.Effect)}
	registry, reports := health.New()
	f.health = registry
	f.feed = &feed{Surroundings: f.in, log: slog.New(slog.NewTextHandler(&f.log, nil)), routes: f.Routes.(*routes)}
	f.feed.Undid = func(link string, effect desired.Effect) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.undid[link] |= effect
	}
	f.want("br0", 0)
	if prepare != nil {
		prepare(f.feed)
	}
	here, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, here.Close()) })
	ctx, cancel := context.WithCancel(t.Context())
	f.stop = cancel
	reconcilertest.Go(t, func(context.Context) error {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f.feed.run(ctx, reports)
	})
	f.until("lo is known", func(links map[string]observed.Link) bool { return len(links) == 1 })
	return f
}

// until waits for a condition of the table of observed links.
func (f *followed) until(what string, condition func(map[string]observed.Link) bool) {
	f.Helper()
	deadline := time.After(patience)
	for {
		rows, changed := f.in.Links.AllWatch(f.in.DB.ReadTxn())
		links := make(map[string]observed.Link)
		for row := range rows {
			links[row.Name] = *row
		}
		if condition(links) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			require.Fail(f, "timed out: "+what, "%v\n%s", links, &f.log)
		}
	}
}

// untilTrue waits until the table equals the kernel's links.
func (f *followed) untilTrue() {
	f.Helper()
	have, err := netlink.LinkList()
	require.NoError(f, err)
	want := make(map[string]observed.Link)
	for _, link := range have {
		want[link.Attrs().Name] = *rowOf(link)
	}
	f.until("the table is as the kernel", func(links map[string]observed.Link) bool {
		return assert.ObjectsAreEqual(want, links)
	})
}

// want writes rows of all kinds that are about a bridge, with a number that no other has.
func (f *followed) want(bridge string, n int) {
	f.Helper()
	state := f.state(fmt.Sprintf(`
links: [{name: %[1]s, kind: bridge}, {name: %[1]s-port, kind: veth, peer: %[1]s-other, master: %[1]s}]
addresses: [{dev: %[1]s, cidr: 10.%[2]d.0.1/24}]
routes: [{dst: 10.%[2]d.1.0/24, dev: %[1]s}]
sysctls: {net.ipv4.conf.%[1]s.rp_filter: 1}
`, bridge, n))
	f.write(func(txn statedb.WriteTxn) {
		write(f, txn, state.Links)
		write(f, txn, state.Addresses)
		write(f, txn, state.Routes)
		write(f, txn, state.Sysctls)
	})
}

func write[S desired.Spec](f *followed, txn statedb.WriteTxn, all []config.Located[S]) {
	f.Helper()
	for _, l := range all {
		_, _, err := tableOf[S](f.fixture).Insert(txn, &desired.Row[S]{Spec: l.Spec, Source: desired.File})
		require.NoError(f, err)
	}
}

// heard is what the feed has asked the reconcilers for.
type heard struct {
	rows    map[string]bool
	resyncs map[string]bool
	// refused has the links on which refused objects are tried again.
	refused []string
}

// asked adds what the reconciler of a kind was asked for.
func asked[S desired.Spec](f *followed, kind string, to *heard) {
	rows, resyncs := loopOf[S](f.fixture).Asked()
	for _, row := range rows {
		to.rows[kind+" "+row.Spec.Key()] = true
	}
	if resyncs > 0 {
		to.resyncs[kind] = true
	}
}

// came returns what the feed has asked for since the last call because of all messages that the kernel has sent: it makes a
// link with a number that no other has, removes it, and waits until all rows that are about it were looked at.
func (f *followed) came(resyncs ...string) (h heard) {
	f.Helper()
	h = heard{rows: map[string]bool{}, resyncs: map[string]bool{}}
	f.markers++
	name := fmt.Sprintf("marker%d", f.markers)
	f.want(name, f.markers)
	f.byHand(netlink.LinkAdd(&netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: name}}))
	f.untilTrue()
	f.byHand(netlink.LinkDel(f.link(name)))
	own := []string{
		"link " + name, "link " + name + "-port", fmt.Sprintf("address %s/10.%d.0.1/24", name, f.markers),
		fmt.Sprintf("route main/10.%d.1.0/24", f.markers), "sysctl net.ipv4.conf." + name + ".rp_filter",
	}
	missing := func(key string) bool { return !h.rows[key] }
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		asked[config.Link](f, "link", &h)
		asked[config.Address](f, "address", &h)
		asked[config.Route](f, "route", &h)
		asked[config.Sysctl](f, "sysctl", &h)
		unasked := slices.ContainsFunc(resyncs, func(kind string) bool { return !h.resyncs[kind] })
		if !unasked && !slices.ContainsFunc(own, missing) {
			break
		}
		require.True(f, time.Now().Before(deadline), "%v", h)
	}
	for n := range f.markers {
		maps.DeleteFunc(h.rows, func(key string, _ bool) bool {
			return strings.Contains(key, "marker") || key == fmt.Sprintf("route main/10.%d.1.0/24", n+1)
		})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for link := range f.undid {
		if !strings.HasPrefix(link, "marker") {
			h.refused = append(h.refused, link)
		}
	}
	clear(f.undid)
	return h
}

func TestLinksMadeByHandAreObserved(t *testing.T) {
	f := follow(t, nil)
	lo := f.link("lo").Attrs()
	f.until("lo is seen", func(links map[string]observed.Link) bool {
		return links["lo"] == observed.Link{Name: "lo", Index: lo.Index, Kind: "device", MTU: 65536}
	})

	f.byHand(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a0", MTU: 1400}, PeerName: "a1"}))
	f.byHand(netlink.LinkSetUp(f.link("a0")))
	f.untilTrue()
	f.until("a0 is seen", func(links map[string]observed.Link) bool {
		return links["a0"] == observed.Link{Name: "a0", Index: f.link("a0").Attrs().Index, Kind: "veth", MTU: 1400, Up: true} && !links["a1"].Up
	})

	f.byHand(netlink.LinkSetMTU(f.link("a0"), 1300))
	f.byHand(netlink.LinkSetDown(f.link("a0")))
	f.byHand(netlink.LinkSetName(f.link("a1"), "renamed"))
	f.untilTrue()
	f.byHand(netlink.LinkDel(f.link("a0")))
	f.until("both are gone", func(links map[string]observed.Link) bool { return len(links) == 1 })
}

func TestPortThatLeavesItsBridgeIsStillALink(t *testing.T) {
	f := follow(t, nil)
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
	f.byHand(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a0"}, PeerName: "a1"}))
	f.byHand(netlink.LinkSetMaster(f.link("a0"), f.link("br0")))
	f.byHand(netlink.LinkSetNoMaster(f.link("a0"))) // "a0 is gone", says the bridge
	f.byHand(netlink.LinkSetUp(f.link("br0")))
	f.until("the last change is seen", func(links map[string]observed.Link) bool { return links["br0"].Up })
	f.untilTrue()
	assert.NotContains(t, f.came().refused, "a0", "it had no effect")
}

// The rows that are about br0.
const (
	theLink    = "link br0"
	thePort    = "link br0-port"
	theAddress = "address br0/10.0.0.1/24"
	theRoute   = "route main/10.0.1.0/24"
	theSysctl  = "sysctl net.ipv4.conf.br0.rp_filter"
)

func TestWhatIsChangedFromOutsideIsLookedAt(t *testing.T) {
	all := []string{theLink, thePort, theAddress, theRoute, theSysctl}
	wanted := &netlink.Addr{IPNet: cidr("10.0.0.1/24")}
	routeOf := func(f *followed, dst string) *netlink.Route {
		return &netlink.Route{Dst: cidr(dst), LinkIndex: f.link("br0").Attrs().Index, Protocol: Protocol, Scope: netlink.SCOPE_LINK}
	}
	for name, test := range map[string]struct {
		// before is what is there already.
		before, change func(*followed)
		rows           []string
		resyncs        []string
		refused        bool
	}{
		"gone": {nil, func(f *followed) { f.byHand(netlink.LinkDel(f.link("br0"))) }, all, nil, true},
		"created again": {nil, func(f *followed) {
			f.byHand(netlink.LinkDel(f.link("br0")))
			f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
		}, all, nil, true},
		"down":   {nil, func(f *followed) { f.byHand(netlink.LinkSetDown(f.link("br0"))) }, []string{theLink, theAddress, theRoute}, nil, true},
		"larger": {nil, func(f *followed) { f.byHand(netlink.LinkSetMTU(f.link("br0"), 9000)) }, []string{theLink}, nil, true},
		"another MAC": {nil, func(f *followed) {
			f.byHand(netlink.LinkSetHardwareAddr(f.link("br0"), net.HardwareAddr{2, 0, 0, 0, 0, 1}))
		}, []string{theLink}, nil, false},
		"renamed": {func(f *followed) { f.byHand(netlink.LinkSetDown(f.link("br0"))) }, func(f *followed) {
			f.byHand(netlink.LinkSetName(f.link("br0"), "br1"))
		}, all, []string{"link"}, true},
		"nothing": {nil, func(*followed) {}, nil, nil, false},
		"what is wanted": {nil, func(f *followed) {
			f.byHand(netlink.AddrAdd(f.link("br0"), wanted))
			f.byHand(netlink.RouteAdd(routeOf(f, "10.0.1.0/24")))
		}, nil, nil, false},
		"address deleted": {func(f *followed) { f.byHand(netlink.AddrAdd(f.link("br0"), wanted)) }, func(f *followed) {
			f.byHand(netlink.AddrDel(f.link("br0"), wanted))
		}, []string{theAddress, theRoute}, nil, false},
		"address with a lifetime": {nil, func(f *followed) {
			f.byHand(netlink.AddrAdd(f.link("br0"), &netlink.Addr{IPNet: wanted.IPNet, ValidLft: 100, PreferedLft: 100}))
		}, []string{theAddress}, nil, false},
		"another address": {nil, func(f *followed) {
			f.byHand(netlink.AddrAdd(f.link("br0"), &netlink.Addr{IPNet: cidr("fd00::7/64")}))
		}, nil, []string{"address"}, false},
		"route deleted": {func(f *followed) { f.byHand(netlink.RouteAdd(routeOf(f, "10.0.1.0/24"))) }, func(f *followed) {
			f.byHand(netlink.RouteDel(routeOf(f, "10.0.1.0/24")))
		}, []string{theRoute}, nil, false},
		"route of another kind": {nil, func(f *followed) {
			f.byHand(netlink.RouteAdd(&netlink.Route{Dst: cidr("10.0.1.0/24"), Type: unix.RTN_BLACKHOLE}))
		}, []string{theRoute}, nil, false},
		"another route": {nil, func(f *followed) { f.byHand(netlink.RouteAdd(routeOf(f, "10.0.2.0/24"))) }, nil, []string{"route"}, false},
		"sysctl": {nil, func(f *followed) {
			f.byHand(os.WriteFile("/proc/sys/net/ipv4/conf/br0/rp_filter", []byte("2"), 0))
		}, []string{theSysctl}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := follow(t, nil)
			f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
			f.byHand(netlink.LinkSetUp(f.link("br0")))
			f.untilTrue()
			if test.before != nil {
				test.before(f)
				f.untilTrue()
			}
			f.came("link", "address", "route", "sysctl") // since what was before the subscription has no message
			f.came()
			test.change(f)
			h := f.came(test.resyncs...)
			assert.ElementsMatch(t, test.rows, slices.Collect(maps.Keys(h.rows)))
			assert.ElementsMatch(t, test.resyncs, slices.Collect(maps.Keys(h.resyncs)))
			assert.Equal(t, test.refused, len(h.refused) > 0)
		})
	}
}

// Somebody may have put right what the agent could not.
func TestFailedRowIsLookedAtWhenItsObjectIsThere(t *testing.T) {
	f := follow(t, nil)
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
	f.untilTrue()
	txn := f.in.DB.ReadTxn()
	row, _, _ := f.in.Tables.Addresses.Get(txn, desired.ByKey[config.Address]("br0/10.0.0.1/24"))
	loopOf[config.Address](f.fixture).Set(txn, row, reconciler.StatusError(errors.New("no")))
	f.came()
	f.byHand(netlink.AddrAdd(f.link("br0"), &netlink.Addr{IPNet: cidr("10.0.0.1/24")}))
	assert.Contains(t, f.came().rows, theAddress)
}

func TestOverrunFeedListsAgain(t *testing.T) {
	f := follow(t, func(feed *feed) { feed.receiveBuffer = 1 }) // the smallest that the kernel allows
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
	f.untilTrue()
	f.came("link", "address", "route", "sysctl")

	// While another transaction holds the table the feed cannot apply its messages.
	txn := f.in.DB.WriteTxn(f.in.Links)
	for i := range 400 {
		f.byHand(netlink.LinkSetMTU(f.link("br0"), 1000+i))
	}
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br1"}}))
	f.byHand(netlink.LinkDel(f.link("br0"))) // the last message, which is lost
	txn.Abort()
	f.untilTrue()
	f.came("link", "address", "route", "sysctl") // everything is compared
	deadline := time.Now().Add(patience)
	for len(f.health.Degraded()) > 0 {
		require.True(t, time.Now().Before(deadline), "it is healthy again")
		<-time.After(time.Millisecond)
	}
	assert.Contains(t, f.log.String(), "no buffer space available", "it was overrun")

	f.byHand(netlink.LinkDel(f.link("br1")))
	f.untilTrue() // the feed still runs
}

// Messages that are not applied yet must not keep the feed from ending.
func TestFeedThatIsBehindCanBeStopped(t *testing.T) {
	for range 4 {
		f := follow(t, nil)
		f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
		f.untilTrue()
		txn := f.in.DB.WriteTxn(f.in.Links)
		for i := range 150 { // more than one transaction and the queue hold
			f.byHand(netlink.LinkSetMTU(f.link("br0"), 1000+i))
		}
		f.stop()
		txn.Abort()
	}
}
