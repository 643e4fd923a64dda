// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired/desiredtest"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a database with the tables.
type fixture struct {
	*testing.T
	db     *statedb.DB
	tables *Tables
	store  *Store
	best   *derive.Derived[*Route, *Route]

	links     *desiredtest.Loop[*Link]
	addresses *desiredtest.Loop[*Address]
	routes    *desiredtest.Loop[*Route]
	sysctls   *desiredtest.Loop[*Sysctl]
}

func newFixture(t *testing.T) *fixture {
	db := statedb.New()
	tables, err := NewTables(db)
	require.NoError(t, err)
	f := &fixture{
		T: t, db: db, tables: tables,
		links: desiredtest.NewLoop(tables.Links), addresses: desiredtest.NewLoop(tables.Addresses),
		routes: desiredtest.NewLoop(tables.Routes), sysctls: desiredtest.NewLoop(tables.Sysctls),
	}
	tables.Loops = Loops{Links: f.links, Addresses: f.addresses, Routes: f.routes, Sysctls: f.sysctls}
	f.store, err = NewStore(db, tables, nil, nil)
	require.NoError(t, err)
	t.Cleanup(f.store.Close)
	f.best, err = NewBestRoutes(derive.Config[*Route]{}, db, tables)
	require.NoError(t, err)
	t.Cleanup(f.best.Close)
	reconcilertest.Go(t, f.best.Run)
	return f
}

// derive waits until the table of routes has what follows from the wanted routes.
func (f *fixture) derive() {
	f.Helper()
	_, err := f.best.WaitAll(f.Context(), reconciler.Attempted)
	require.NoError(f, err)
}

// apply applies a file.
func (f *fixture) apply(yaml string) {
	f.Helper()
	state, err := config.Parse("f", []byte(yaml))
	require.NoError(f, err)
	require.NoError(f, f.store.Apply(state))
	f.derive()
}

// rows returns "kind key status" of all rows.
func (f *fixture) rows() (all []string) {
	s, _ := f.tables.Snapshot(f.db.ReadTxn())
	for _, i := range s.Items {
		all = append(all, i.Kind+" "+i.Key+" "+i.Status.Kind.String())
	}
	return all
}

// setAll gives all rows a status, as reconcilers would.
func (f *fixture) setAll(status reconciler.Status) {
	txn := f.db.ReadTxn()
	f.links.SetAll(txn, status)
	f.addresses.SetAll(txn, status)
	f.routes.SetAll(txn, status)
	f.sysctls.SetAll(txn, status)
}

const file = `
links: [{name: br0, kind: bridge}, {name: a, kind: veth, peer: b}]
addresses: [{dev: br0, cidr: 10.0.0.1/24}]
routes: [{dst: 10.1.0.0/16, via: 10.0.0.2}]
sysctls: {net.ipv4.ip_forward: 1}
`

func TestFileFillsAndInitialisesTheTables(t *testing.T) {
	f := newFixture(t)
	initialized := func() bool {
		txn := f.db.ReadTxn()
		all := true
		for _, table := range append(f.tables.filled(), f.tables.Routes) {
			done, _ := table.Initialized(txn)
			all = all && done
		}
		return all
	}
	s, _ := f.tables.Snapshot(f.db.ReadTxn())
	assert.False(t, initialized())
	assert.False(t, s.Initialized)

	f.apply(file)
	assert.True(t, initialized())
	assert.Equal(t, []string{
		"link a Pending", "link b Pending", "link br0 Pending",
		"address br0/10.0.0.1/24 Pending",
		"route main/10.1.0.0/16 Pending",
		"sysctl net.ipv4.ip_forward Pending",
	}, f.rows())
}

func TestEditWritesOnlyChangedRows(t *testing.T) {
	f := newFixture(t)
	f.apply(file)
	f.setAll(reconciler.StatusDone())
	revision := f.tables.Links.Revision(f.db.ReadTxn())

	f.apply(`
links: [{name: br0, kind: bridge}, {name: a, kind: veth, peer: b}]
addresses: [{dev: br0, cidr: 10.0.0.1/24}, {dev: b, cidr: 10.2.0.1/24}]
routes: [{dst: 10.1.0.0/16, via: 10.0.0.3}]
`)
	assert.Equal(t, revision, f.tables.Links.Revision(f.db.ReadTxn()), "no link was written")
	assert.Equal(t, []string{
		"link a Done", "link b Done", "link br0 Done",
		"address b/10.2.0.1/24 Pending", "address br0/10.0.0.1/24 Done",
		"route main/10.1.0.0/16 Pending",
	}, f.rows())
}

func TestBestWantedRouteIsTheRoute(t *testing.T) {
	const links = "links: [{name: br0, kind: bridge}]\naddresses: [{dev: br0, cidr: 10.0.0.1/24}]\n"
	f := newFixture(t)
	// by returns the source and the metric of the route.
	by := func() string {
		row, _, found := f.tables.Routes.Get(f.db.ReadTxn(), ByKey[config.Route]("main/10.1.0.0/16"))
		if !found {
			return "none"
		}
		return fmt.Sprint(row.Source, " ", row.Spec.Metric)
	}
	f.apply(links + "routes: [{dst: 10.1.0.0/16, via: 10.0.0.2, metric: 9}, {dst: 10.1.0.0/16, via: 10.0.0.3, metric: 5}]")
	require.Equal(t, "file 5", by(), "the lower metric")
	assert.Equal(t, 1, f.tables.Routes.NumObjects(f.db.ReadTxn()))
	x := f.best.Explain(t.Context(), "main/10.1.0.0/16")
	assert.Equal(t, []string{
		`main/10.1.0.0/16 of table "routes": the winner is file/main/10.1.0.0/16/5 (main 10.1.0.0/16 10.0.0.3 br0 5 global file), 2 row(s) want it`,
		"loser: file/main/10.1.0.0/16/9 (main 10.1.0.0/16 10.0.0.2 br0 9 global file)",
	}, x.Notes)
	x = f.best.Explain(t.Context(), "file/main/10.1.0.0/16/9")
	assert.Equal(t, []string{`main/10.1.0.0/16 of table "routes": it loses to file/main/10.1.0.0/16/5 (main 10.1.0.0/16 10.0.0.3 br0 5 global file), 2 row(s) want it`}, x.Notes)

	f.apply(links + "routes: [{dst: 10.1.0.0/16, via: 10.0.0.2, metric: 9}]")
	assert.Equal(t, "file 9", by(), "it takes the place of the deleted one")
	f.apply(links)
	assert.Equal(t, "none", by())

	// Of two sources the lower metric wins, and then the lower name.
	txn := f.db.WriteTxn(f.tables.RoutesWanted)
	for _, row := range []Route{{Source: "static"}, {Source: "bgp"}, {Source: "kernel"}, {Source: "a", Spec: config.Route{Metric: 1}}} {
		row.Spec.Table, row.Spec.Dst = config.TableMain, netip.MustParsePrefix("10.1.0.0/16")
		mustInsert(txn, f.tables.RoutesWanted, &row)
	}
	txn.Commit()
	f.derive()
	assert.Equal(t, "bgp 0", by())
}

func TestRouteIsPendingUntilItIsInItsTable(t *testing.T) {
	f := newFixture(t)
	f.apply("routes: [{dst: 10.1.0.0/16, dev: br0, metric: 5}]")
	f.setAll(reconciler.StatusDone())
	require.Equal(t, []string{"route main/10.1.0.0/16 Done"}, f.rows())

	const also = "routes: [{dst: 10.1.0.0/16, dev: br0, metric: 5}, {dst: 10.1.0.0/16, dev: br0}"
	f.best.Pause()
	state, err := config.Parse("f", []byte(also+"]"))
	require.NoError(t, err)
	require.NoError(t, f.store.Apply(state))
	assert.Equal(t, []string{"route main/10.1.0.0/16 Pending"}, f.rows(), "the table has the former winner")
	f.best.Resume()
	f.derive()
	f.setAll(reconciler.StatusDone())
	assert.Equal(t, []string{"route main/10.1.0.0/16 Done"}, f.rows())

	before := f.tables.Routes.Revision(f.db.ReadTxn())
	f.apply(also + ", {dst: 10.1.0.0/16, dev: br1, metric: 8}]")
	assert.Equal(t, []string{"route main/10.1.0.0/16 Done"}, f.rows(), "a loser changes nothing")
	assert.Equal(t, before, f.tables.Routes.Revision(f.db.ReadTxn()))
}

func TestBestRoutesAgreeWithTheDerivation(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := newFixture(t)
	for range 300 {
		txn := f.db.WriteTxn(f.tables.RoutesWanted)
		for range 1 + random.IntN(4) {
			row := &Route{Source: []Source{File, "api", "bgp", "zebra"}[random.IntN(4)], Spec: config.Route{
				Table: config.TableMain, Dst: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(random.IntN(3))}), 16),
				Metric: uint32(random.IntN(3)), Dev: "br" + string(rune('0'+random.IntN(2))),
			}}
			if random.IntN(2) == 0 {
				mustInsert(txn, f.tables.RoutesWanted, row)
			} else {
				_, _, err := f.tables.RoutesWanted.Delete(txn, row)
				require.NoError(t, err)
			}
		}
		txn.Commit()
		f.derive()
		read := f.db.ReadTxn()
		require.Equal(t, f.tables.bestRoutes(read), statedb.Collect(f.tables.Routes.All(read)))
	}
}

func TestUndoneRowsArePendingAgain(t *testing.T) {
	f := newFixture(t)
	f.apply(`
links: [{name: br0, kind: bridge}, {name: a, kind: veth, peer: b, master: br0}]
addresses: [{dev: br0, cidr: 10.0.0.1/24}, {dev: b, cidr: 10.2.0.1/24}]
routes: [{dst: 10.1.0.0/16, dev: br0}, {dst: 10.3.0.0/16, dev: b}]
sysctls: {net.ipv4.ip_forward: 1, net.ipv4.conf.br0.rp_filter: 1}
`)
	for effect, want := range map[Effect][]string{
		UndidLink:                  {"link br0"},
		UndidPorts:                 {"link a"},
		UndidAddresses:             {"address br0/10.0.0.1/24"},
		UndidRoutes | UndidSysctls: {"route main/10.1.0.0/16", "sysctl net.ipv4.conf.br0.rp_filter"},
		UndidAll:                   {"link a", "link br0", "address br0/10.0.0.1/24", "route main/10.1.0.0/16", "sysctl net.ipv4.conf.br0.rp_filter"},
	} {
		f.setAll(reconciler.StatusDone())
		f.tables.Undid("br0", effect)
		f.tables.Undid("unknown", UndidAll)
		var pending []string
		s, _ := f.tables.Snapshot(f.db.ReadTxn())
		for _, i := range s.Items {
			if !i.Settled() {
				pending = append(pending, i.Kind+" "+i.Key)
			}
		}
		assert.Equal(t, want, pending)
	}

	_, before, _ := f.tables.Links.Get(f.db.ReadTxn(), ByKey[config.Link]("a"))
	f.tables.Undid("br0", UndidAll)
	_, after, _ := f.tables.Links.Get(f.db.ReadTxn(), ByKey[config.Link]("a"))
	assert.NotEqual(t, before, after, "a row in an operation is pending again")
}

func TestRefusedRowsArePendingAgainOnANewLink(t *testing.T) {
	f := newFixture(t)
	f.apply(`
addresses: [{dev: br0, cidr: 10.0.0.1/24}, {dev: br0, cidr: 10.2.0.1/24}, {dev: br1, cidr: 10.3.0.1/24}]
sysctls: {net.ipv4.conf.br0.rp_filter: 1, net.ipv4.ip_forward: 1}
`)
	f.setAll(reconciler.StatusError(errors.New("boom")))
	row, _, _ := f.tables.Addresses.Get(f.db.ReadTxn(), ByKey[config.Address]("br0/10.2.0.1/24"))
	f.addresses.Set(f.db.ReadTxn(), row, reconciler.StatusDone())

	f.tables.Undid("br0", UndidRefusals)
	assert.Equal(t, []string{
		"address br0/10.0.0.1/24 Pending", "address br0/10.2.0.1/24 Done", "address br1/10.3.0.1/24 Error",
		"sysctl net.ipv4.conf.br0.rp_filter Pending", "sysctl net.ipv4.ip_forward Error",
	}, f.rows())
}

func TestLinkIsNeededWhileAnyRowNeedsIt(t *testing.T) {
	f := newFixture(t)
	needed := func(link string) bool { return f.tables.Needed(f.db.ReadTxn(), link) }
	for _, yaml := range []string{
		"links: [{name: a, kind: veth, peer: b, master: theirs}]",
		"addresses: [{dev: theirs, cidr: 10.0.0.1/24}]",
		"routes: [{dst: 10.1.0.0/16, dev: theirs}]",
		"sysctls: {net.ipv4.conf.theirs.rp_filter: 1}",
	} {
		f.apply(yaml)
		assert.True(t, needed("theirs"), yaml)
		assert.False(t, needed("a") || needed("their") || needed(""), yaml)
	}
	f.apply("{}")
	assert.False(t, needed("theirs"))
}
