// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/desired/desiredtest"
	"github.com/statekeel/statekeel/example/netagent/observed"
	"github.com/statekeel/statekeel/example/netagent/sandbox"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// A thread in another namespace ends with its goroutine, except the first thread of the process: so no test
// may run on that one.
func init() { runtime.LockOSThread() }

// TestMain runs the tests in namespaces of their own, so that they need no root and do not change the host.
// They fail where the system forbids that.
func TestMain(m *testing.M) {
	inside, err := sandbox.Inside()
	if err == nil && !inside {
		var code int
		if code, err = sandbox.Run(os.Args[1:]); err == nil {
			os.Exit(code)
		}
	}
	if err == nil {
		err = Check()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// fixture is a network namespace, the tables of the desired objects and of the observed links, and the
// operations, which the tests call.
type fixture struct {
	*testing.T
	in desired.Surroundings
	desired.Target
	undone map[string]desired.Effect
	log    bytes.Buffer
}

// newFixture moves the test to a new network namespace, which ends with the test.
func newFixture(t *testing.T) *fixture {
	runtime.LockOSThread() // never unlocked: the thread ends, and the namespace with it
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	db := reconcilertest.NewDB(t)
	tables, err := desired.NewTables(db)
	require.NoError(t, err)
	tables.Loops = desired.Loops{
		Links: desiredtest.NewLoop(tables.Links), Addresses: desiredtest.NewLoop(tables.Addresses),
		Routes: desiredtest.NewLoop(tables.Routes), Sysctls: desiredtest.NewLoop(tables.Sysctls),
	}
	seen, err := observed.NewLinks(db)
	require.NoError(t, err)
	f := &fixture{T: t, undone: make(map[string]desired.Effect)}
	f.in = desired.Surroundings{
		DB: db, Tables: tables, Links: seen,
		Undid: func(link string, effect desired.Effect) { f.undone[link] |= effect },
	}
	f.Target = NewTarget(f.in, slog.New(slog.NewTextHandler(&f.log, nil)))
	return f
}

// observe makes the table of observed links equal to the kernel's links, and reports no effects.
func (f *fixture) observe() {
	f.Helper()
	links, err := dump("links", netlink.LinkList)
	require.NoError(f, err)
	silent := feed{Surroundings: f.in}
	silent.Undid = func(string, desired.Effect) {}
	_, err = silent.take(newDrift(&silent), func(c *changes) { c.replace(links) })
	require.NoError(f, err)
}

// effects returns what has been undone since the last call.
func (f *fixture) effects() map[string]desired.Effect {
	undone := maps.Clone(f.undone)
	clear(f.undone)
	return undone
}

// state parses the YAML of a state.
func (f *fixture) state(yaml string) config.State {
	f.Helper()
	state, err := config.Parse("test", []byte(yaml))
	require.NoError(f, err)
	return state
}

// update calls Update once for each object of a state, links first.
func (f *fixture) update(state config.State) {
	f.Helper()
	for _, l := range state.Links {
		require.NoError(f, update(f, f.Links, l.Spec))
	}
	for _, a := range state.Addresses {
		require.NoError(f, update(f, f.Addresses, a.Spec))
	}
	for _, r := range state.Routes {
		require.NoError(f, update(f, f.Routes, r.Spec))
	}
	for _, s := range state.Sysctls {
		require.NoError(f, update(f, f.Sysctls, s.Spec))
	}
}

// update calls Update as a reconciler with the kernel's current links would, and writes the row into its
// table, and its outcome.
func update[S desired.Spec](f *fixture, ops desired.Operations[S], spec S) error {
	f.Helper()
	f.observe()
	return attempt(f, ops, spec)
}

// attempt is update with the links that were last observed.
func attempt[S desired.Spec](f *fixture, ops desired.Operations[S], spec S) error {
	f.Helper()
	row := &desired.Row[S]{Spec: spec}
	err := ops.Update(f.Context(), f.in.DB.ReadTxn(), 1, row)
	status := reconciler.StatusDone()
	if err != nil {
		status = reconciler.StatusError(err)
	}
	f.write(func(txn statedb.WriteTxn) {
		_, _, err := tableOf[S](f).Insert(txn, row)
		require.NoError(f, err)
		loopOf[S](f).Set(txn, row, status)
	})
	return err
}

// remove deletes the row from its table and calls Delete.
func remove[S desired.Spec](f *fixture, ops desired.Operations[S], spec S) error {
	f.Helper()
	row := &desired.Row[S]{Spec: spec, Source: desired.File}
	f.write(func(txn statedb.WriteTxn) {
		_, _, err := tableOf[S](f).Delete(txn, row)
		require.NoError(f, err)
	})
	return ops.Delete(f.Context(), f.in.DB.ReadTxn(), 1, row)
}

// converge makes its table contain exactly these rows, and deletes what is listed beside them, as a reconciler would.
func converge[S desired.Spec](f *fixture, ops desired.Operations[S], located []config.Located[S]) {
	f.Helper()
	table := tableOf[S](f)
	f.write(func(txn statedb.WriteTxn) {
		require.NoError(f, table.DeleteAll(txn))
		for _, l := range located {
			_, _, err := table.Insert(txn, &desired.Row[S]{Spec: l.Spec, Source: desired.File})
			require.NoError(f, err)
		}
		loopOf[S](f).SetAll(txn, reconciler.StatusDone())
	})
	for _, found := range list(f, ops) {
		if _, _, asked := table.Get(f.in.DB.ReadTxn(), desired.ByKey[S](found.Spec.Key())); !asked {
			require.NoError(f, ops.Delete(f.Context(), f.in.DB.ReadTxn(), 1, found))
		}
	}
}

// list returns what operations list.
func list[S desired.Spec](f *fixture, ops desired.Operations[S]) (found []*desired.Row[S]) {
	f.Helper()
	require.NoError(f, ops.List(f.Context(), f.in.DB.ReadTxn(), func(row *desired.Row[S]) bool {
		found = append(found, row)
		return true
	}))
	return found
}

// differs returns the keys of the rows that are not as listed, in all tables. Get must say the same of each.
func (f *fixture) differs() []string {
	f.Helper()
	return slices.Concat(differs(f, f.Links), differs(f, f.Addresses), differs(f, f.Routes), differs(f, f.Sysctls))
}

func differs[S desired.Spec](f *fixture, ops desired.Operations[S]) (keys []string) {
	f.Helper()
	equal := make(map[string]bool)
	for _, found := range list(f, ops) {
		key := found.Spec.Key()
		row, _, asked := tableOf[S](f).Get(f.in.DB.ReadTxn(), desired.ByKey[S](key))
		before, twice := equal[key]
		equal[key] = asked && row.Spec == found.Spec && found.Extra == "" && (before || !twice)
	}
	txn := f.in.DB.ReadTxn()
	for row := range tableOf[S](f).All(txn) {
		key := row.Spec.Key()
		if !equal[key] {
			keys = append(keys, key)
		}
		found, ok, err := ops.Get(f.Context(), txn, row)
		require.NoError(f, err, key)
		_, listed := equal[key]
		require.Equal(f, listed, ok, key)
		require.Equal(f, equal[key], ok && found.Spec == row.Spec && found.Extra == "", "%s: Get finds %+v", key, found)
	}
	return keys
}

// write changes the tables of the desired objects.
func (f *fixture) write(change func(statedb.WriteTxn)) {
	f.Helper()
	t := f.in.Tables
	txn := f.in.DB.WriteTxn(t.Links, t.Addresses, t.RoutesWanted, t.Routes, t.Sysctls)
	defer txn.Commit()
	change(txn)
}

// tableOf returns the table of the desired objects of one kind.
func tableOf[S desired.Spec](f *fixture) statedb.RWTable[*desired.Row[S]] {
	t := f.in.Tables
	for _, table := range []any{t.Links, t.Addresses, t.Routes, t.Sysctls} {
		if table, ok := table.(statedb.RWTable[*desired.Row[S]]); ok {
			return table
		}
	}
	panic("no such table")
}

// loopOf returns what stands for the reconciler of one kind.
func loopOf[S desired.Spec](f *fixture) *desiredtest.Loop[*desired.Row[S]] {
	l := f.in.Tables.Loops
	for _, loop := range []any{l.Links, l.Addresses, l.Routes, l.Sysctls} {
		if loop, ok := loop.(*desiredtest.Loop[*desired.Row[S]]); ok {
			return loop
		}
	}
	panic("no such loop")
}

func (f *fixture) link(name string) netlink.Link {
	f.Helper()
	link, err := netlink.LinkByName(name)
	require.NoError(f, err)
	return link
}

// linkNames returns the names of the namespace's bridges and veths.
func (f *fixture) linkNames() (names []string) {
	links, err := netlink.LinkList()
	require.NoError(f, err)
	for _, link := range links {
		if link.Type() == "bridge" || link.Type() == "veth" || link.Type() == "ifb" {
			names = append(names, link.Attrs().Name)
		}
	}
	slices.Sort(names)
	return names
}

// addresses returns the addresses of a link, except link-local ones.
func (f *fixture) addresses(dev string) (all []string) {
	f.Helper()
	addrs, err := netlink.AddrList(f.link(dev), netlink.FAMILY_ALL)
	require.NoError(f, err)
	for _, addr := range addrs {
		if !addr.IP.IsLinkLocalUnicast() {
			all = append(all, addr.IPNet.String())
		}
	}
	slices.Sort(all)
	return all
}

// routes returns a table's routes that the kernel did not make.
func (f *fixture) routes(table int) (all []string) {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
	require.NoError(f, err)
	for _, r := range routes {
		if r.Protocol == unix.RTPROT_KERNEL {
			continue
		}
		link, err := netlink.LinkByIndex(r.LinkIndex)
		require.NoError(f, err)
		all = append(all, fmt.Sprintf("%s via %v dev %s metric %d proto %d scope %s", r.Dst, r.Gw, link.Attrs().Name, r.Priority, r.Protocol, r.Scope))
	}
	slices.Sort(all)
	return all
}

// ip changes something by hand, as a user with ip(8) would.
func (f *fixture) byHand(err error) {
	f.Helper()
	require.NoError(f, err)
}

func cidr(text string) *net.IPNet {
	ip, network, err := net.ParseCIDR(text)
	if err != nil {
		panic(err)
	}
	network.IP = ip
	return network
}
