// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
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
		T: t, db: db, tables: tables, store: NewStore(db, tables),
		links: desiredtest.NewLoop(tables.Links), addresses: desiredtest.NewLoop(tables.Addresses),
		routes: desiredtest.NewLoop(tables.Routes), sysctls: desiredtest.NewLoop(tables.Sysctls),
	}
	tables.Loops = Loops{Links: f.links, Addresses: f.addresses, Routes: f.routes, Sysctls: f.sysctls}
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
func (f *fixture) apply(yaml string) Changes {
	f.Helper()
	state, err := config.Parse("f", []byte(yaml))
	require.NoError(f, err)
	defer f.derive()
	return f.store.Apply(state)
}

// putRoute puts a route as the API would.
func (f *fixture) putRoute(yaml string) (created bool, err error) {
	f.Helper()
	route, err := config.ParseRoute("body", []byte(yaml))
	require.NoError(f, err)
	defer f.derive()
	return f.store.PutRoute(route)
}

// putLink puts a link as the API would.
func (f *fixture) putLink(yaml string) (created bool, err error) {
	f.Helper()
	links, err := config.ParseLink("body", []byte(yaml))
	require.NoError(f, err)
	return f.store.PutLink(links)
}

// rows returns "kind key source status" of all rows.
func (f *fixture) rows() (all []string) {
	s, _ := f.tables.Snapshot(f.db.ReadTxn())
	for _, i := range s.Items {
		all = append(all, i.Kind+" "+i.Key+" "+string(i.Source)+" "+i.Status.Kind.String())
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
	assert.False(t, s.Initialized || s.Settled())

	assert.Equal(t, Changes{Added: 6}, f.apply(file))
	assert.True(t, initialized())
	assert.Equal(t, []string{
		"link a file Pending", "link b file Pending", "link br0 file Pending",
		"address br0/10.0.0.1/24 file Pending",
		"route main/10.1.0.0/16 file Pending",
		"sysctl net.ipv4.ip_forward file Pending",
	}, f.rows())
}

func TestEditWritesOnlyChangedRows(t *testing.T) {
	f := newFixture(t)
	f.apply(file)
	f.setAll(reconciler.StatusDone())
	revision := f.tables.Links.Revision(f.db.ReadTxn())

	changes := f.apply(`
links: [{name: br0, kind: bridge}, {name: a, kind: veth, peer: b}]
addresses: [{dev: br0, cidr: 10.0.0.1/24}, {dev: b, cidr: 10.2.0.1/24}]
routes: [{dst: 10.1.0.0/16, via: 10.0.0.3}]
`)
	assert.Equal(t, Changes{Added: 1, Changed: 1, Removed: 1}, changes)
	assert.Equal(t, "1 added, 1 changed, 1 removed", changes.String())
	assert.Equal(t, revision, f.tables.Links.Revision(f.db.ReadTxn()), "no link was written")
	assert.Equal(t, []string{
		"link a file Done", "link b file Done", "link br0 file Done",
		"address b/10.2.0.1/24 file Pending", "address br0/10.0.0.1/24 file Done",
		"route main/10.1.0.0/16 file Pending",
	}, f.rows())
}

func TestAPIObjectsStayUntilTheAPIDeletesThem(t *testing.T) {
	f := newFixture(t)
	f.apply(file)
	created, err := f.putLink("{name: c, kind: veth, peer: d}")
	require.NoError(t, err)
	assert.True(t, created)
	f.apply("{}")
	assert.Equal(t, []string{"link c api Pending", "link d api Pending"}, f.rows())
	require.NoError(t, f.store.DeleteLink("d"))
	assert.Empty(t, f.rows(), "a veth goes with both ends")
	assert.ErrorIs(t, f.store.DeleteLink("d"), ErrNotFound)
}

func TestAPICannotChangeObjectsOfTheFile(t *testing.T) {
	f := newFixture(t)
	f.apply(file)
	before := f.rows()
	for _, body := range []string{"{name: br0, kind: bridge, mtu: 1400}", "{name: b, kind: bridge}", "{name: x, kind: veth, peer: a}"} {
		_, err := f.putLink(body)
		assert.ErrorIs(t, err, ErrFromFile, body)
	}
	assert.EqualError(t, f.store.DeleteLink("a"), `links "a" comes from the state file: edit it there`)
	assert.ErrorIs(t, f.store.DeleteAddress("br0/10.0.0.1/24"), ErrFromFile)
	assert.ErrorIs(t, f.store.DeleteRoute("file/main/10.1.0.0/16"), ErrFromFile)
	assert.ErrorIs(t, f.store.DeleteRoute("api/main/10.1.0.0/16"), ErrNotFound)
	assert.ErrorIs(t, f.store.DeleteSysctl("net.ipv4.ip_forward"), ErrFromFile)
	assert.Equal(t, before, f.rows())
}

func TestPuttingTheSameObjectAgainWritesNothing(t *testing.T) {
	f := newFixture(t)
	f.apply("{}")
	_, err := f.putLink("{name: c, kind: veth, peer: d}")
	require.NoError(t, err)
	f.setAll(reconciler.StatusDone())
	revision := f.tables.Links.Revision(f.db.ReadTxn())
	created, err := f.putLink("{name: c, kind: veth, peer: d}")
	require.NoError(t, err)
	assert.False(t, created)
	assert.Equal(t, revision, f.tables.Links.Revision(f.db.ReadTxn()))

	_, err = f.putLink("{name: c, kind: veth, peer: {name: d, mtu: 1400}, mtu: 1500}")
	require.NoError(t, err)
	assert.Equal(t, []string{"link c api Done", "link d api Pending"}, f.rows(), "only the end that changed")
}

func TestReplacedVethLeavesNoOtherEnd(t *testing.T) {
	f := newFixture(t)
	f.apply("{}")
	for _, body := range []string{"{name: c, kind: veth, peer: d}", "{name: e, kind: veth, peer: f}", "{name: c, kind: veth, peer: e}"} {
		_, err := f.putLink(body)
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"link c api Pending", "link e api Pending"}, f.rows())
	_, err := f.putLink("{name: e, kind: bridge}")
	require.NoError(t, err)
	assert.Equal(t, []string{"link e api Pending"}, f.rows())
}

func TestFileTakesOverObjectsOfTheAPI(t *testing.T) {
	f := newFixture(t)
	f.apply("{}")
	for _, body := range []string{"{name: br0, kind: bridge}", "{name: c, kind: veth, peer: d}", "{name: e, kind: veth, peer: f}"} {
		_, err := f.putLink(body)
		require.NoError(t, err)
	}
	f.setAll(reconciler.StatusDone())
	changes := f.apply("links: [{name: br0, kind: bridge}, {name: c, kind: bridge}, {name: e, kind: veth, peer: f}]")
	slices.Sort(changes.Taken)
	assert.Equal(t, []string{"links br0", "links c", "links d", "links e", "links f"}, changes.Taken)
	assert.Equal(t, []string{"link br0 file Pending", "link c file Pending", "link e file Pending", "link f file Pending"}, f.rows(),
		"every written row is applied; d was the other end of c, and is no more")
	f.apply("{}")
	assert.Empty(t, f.rows())
}

func TestAPIObjectsAreCheckedWithAllOthers(t *testing.T) {
	f := newFixture(t)
	f.apply(file)
	route := func(yaml string) error {
		_, err := f.putRoute(yaml)
		return err
	}
	assert.EqualError(t, route("{dst: 10.9.0.0/16, via: 10.99.0.1}"),
		`body:1:25: route "main/10.9.0.0/16": its gateway 10.99.0.1 cannot be reached: no address of a link that is up has it in its network`)
	require.NoError(t, route("{dst: 10.9.0.0/16, via: 10.0.0.2}"))
	row, _, _ := f.tables.Routes.Get(f.db.ReadTxn(), ByKey[config.Route]("main/10.9.0.0/16"))
	assert.Equal(t, "br0", row.Spec.Dev, "found by the gateway")

	address := func(yaml string) error {
		a, err := config.ParseAddress("body", []byte(yaml))
		require.NoError(t, err)
		_, err = f.store.PutAddress(a)
		return err
	}
	assert.EqualError(t, address("{dev: br0, cidr: 10.0.0.1/16}"), `body:1:18: address "br0/10.0.0.1" is there already`)
	require.NoError(t, address("{dev: theirs, cidr: 10.4.0.9/16}"), "another program has to create it")

	// An object that has lost its dependency does not keep others out.
	f.apply("links: [{name: br1, kind: bridge}]")
	require.NoError(t, address("{dev: br1, cidr: 10.3.0.1/24}"))
}

func TestBestWantedRouteIsTheRoute(t *testing.T) {
	const links = "links: [{name: br0, kind: bridge}]\naddresses: [{dev: br0, cidr: 10.0.0.1/24}]\n"
	f := newFixture(t)
	// by returns the owner and the metric of the route.
	by := func() string {
		row, _, found := f.tables.Routes.Get(f.db.ReadTxn(), ByKey[config.Route]("main/10.1.0.0/16"))
		if !found {
			return "none"
		}
		return fmt.Sprint(row.Source, " ", row.Spec.Metric)
	}
	put := func(yaml string) {
		t.Helper()
		created, err := f.putRoute(yaml)
		require.NoError(t, err)
		require.True(t, created)
	}
	remove := func(key string) {
		t.Helper()
		require.NoError(t, f.store.DeleteRoute(key))
		f.derive()
	}
	f.apply(links + "routes: [{dst: 10.1.0.0/16, via: 10.0.0.2, metric: 9}, {dst: 10.1.0.0/16, via: 10.0.0.3, metric: 5}]")
	require.Equal(t, "file 5", by(), "the lower metric, of one owner")
	assert.Equal(t, 1, f.tables.Routes.NumObjects(f.db.ReadTxn()))
	put("{dst: 10.1.0.0/16, via: 10.0.0.4, metric: 5}")
	assert.Equal(t, "file 5", by(), "the file, of two with one metric")
	put("{dst: 10.1.0.0/16, via: 10.0.0.4, metric: 4}")
	assert.Equal(t, "api 4", by(), "the lower metric, of two owners")
	created, err := f.putRoute("{dst: 10.1.0.0/16, via: 10.0.0.5, metric: 5}")
	require.NoError(t, err)
	assert.False(t, created, "it replaces the API's own of this metric")

	x := f.best.Explain(t.Context(), "main/10.1.0.0/16")
	assert.Equal(t, []string{
		`main/10.1.0.0/16 of table "routes": the winner is api/main/10.1.0.0/16/4, 4 row(s) want it`,
		"loser: file/main/10.1.0.0/16/5", "loser: api/main/10.1.0.0/16/5", "loser: file/main/10.1.0.0/16/9",
	}, x.Notes)
	x = f.best.Explain(t.Context(), "file/main/10.1.0.0/16/5")
	assert.Equal(t, []string{`main/10.1.0.0/16 of table "routes": it loses to api/main/10.1.0.0/16/4, 4 row(s) want it`}, x.Notes)

	remove("api/main/10.1.0.0/16/4")
	assert.Equal(t, "file 5", by(), "it takes the place of the deleted one")
	f.apply(links)
	assert.Equal(t, "api 5", by(), "the API keeps what it wants")
	remove("api/main/10.1.0.0/16/5")
	assert.Equal(t, "none", by())

	// Of two owners that are not the file, the lower name wins.
	txn := f.db.WriteTxn(f.tables.RoutesWanted)
	for _, owner := range []Source{"static", "bgp", "kernel"} {
		mustInsert(txn, f.tables.RoutesWanted, &Route{Spec: config.Route{Table: config.TableMain, Dst: netip.MustParsePrefix("10.1.0.0/16")}, Source: owner})
	}
	txn.Commit()
	f.derive()
	assert.Equal(t, "bgp 0", by())
}

func TestRouteIsPendingUntilItIsInItsTable(t *testing.T) {
	f := newFixture(t)
	f.apply("routes: [{dst: 10.1.0.0/16, dev: br0, metric: 5}]")
	f.setAll(reconciler.StatusDone())
	require.Equal(t, []string{"route main/10.1.0.0/16 file Done"}, f.rows())

	f.best.Pause()
	route, err := config.ParseRoute("body", []byte("{dst: 10.1.0.0/16, dev: br0}"))
	require.NoError(t, err)
	_, err = f.store.PutRoute(route)
	require.NoError(t, err)
	assert.Equal(t, []string{"route main/10.1.0.0/16 api Pending"}, f.rows(), "the table has the former winner")
	f.best.Resume()
	f.derive()
	f.setAll(reconciler.StatusDone())
	assert.Equal(t, []string{"route main/10.1.0.0/16 api Done"}, f.rows())

	before := f.tables.Routes.Revision(f.db.ReadTxn())
	_, err = f.putRoute("{dst: 10.1.0.0/16, dev: br1, metric: 8}")
	require.NoError(t, err)
	assert.Equal(t, []string{"route main/10.1.0.0/16 api Done"}, f.rows(), "a loser changes nothing")
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
			row := &Route{Source: []Source{File, API, "bgp", "zebra"}[random.IntN(4)], Spec: config.Route{
				Table: config.TableMain, Dst: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(random.IntN(3))}), 16),
				Metric: uint32(random.IntN(3)), Dev: "br" + string(rune('0'+random.IntN(2))),
			}}
			if random.IntN(2) == 0 {
				mustInsert(txn, f.tables.RoutesWanted, row)
			} else {
				mustDelete(txn, f.tables.RoutesWanted, row)
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
	again := NewAgain(f.db, f.tables)
	for effect, want := range map[Effect][]string{
		UndidLink:                  {"link br0"},
		UndidPorts:                 {"link a"},
		UndidAddresses:             {"address br0/10.0.0.1/24"},
		UndidRoutes | UndidSysctls: {"route main/10.1.0.0/16", "sysctl net.ipv4.conf.br0.rp_filter"},
		UndidAll:                   {"link a", "link br0", "address br0/10.0.0.1/24", "route main/10.1.0.0/16", "sysctl net.ipv4.conf.br0.rp_filter"},
	} {
		f.setAll(reconciler.StatusDone())
		again.mark(map[string]Effect{"br0": effect, "unknown": UndidAll})
		var pending []string
		s, _ := f.tables.Snapshot(f.db.ReadTxn())
		for _, i := range s.Unsettled() {
			pending = append(pending, i.Kind+" "+i.Key)
		}
		assert.Equal(t, want, pending)
	}

	_, before, _ := f.tables.Links.Get(f.db.ReadTxn(), ByKey[config.Link]("a"))
	again.mark(map[string]Effect{"br0": UndidAll})
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

	NewAgain(f.db, f.tables).mark(map[string]Effect{"br0": UndidRefusals})
	assert.Equal(t, []string{
		"address br0/10.0.0.1/24 file Pending", "address br0/10.2.0.1/24 file Done", "address br1/10.3.0.1/24 file Error",
		"sysctl net.ipv4.conf.br0.rp_filter file Pending", "sysctl net.ipv4.ip_forward file Error",
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

func TestLookIsCompleteWhenNothingIsLeftToMark(t *testing.T) {
	f := newFixture(t)
	f.apply("links: [{name: br0, kind: bridge}]\naddresses: [{dev: br0, cidr: 10.0.0.1/24}]")
	f.setAll(reconciler.StatusDone())
	again := NewAgain(f.db, f.tables)
	s, _, whole := again.Look()
	assert.True(t, whole && s.Settled())

	again.Undid("br0", UndidAddresses)
	s, _, whole = again.Look()
	assert.True(t, s.Settled())
	assert.False(t, whole, "the address is not marked yet")

	told := again.take()
	_, _, whole = again.Look()
	assert.False(t, whole, "the address is being marked")
	again.mark(told)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	again.Undid("br0", UndidAddresses)
	ended := make(chan error)
	go func() { ended <- again.Run(ctx, nil) }()
	require.NoError(t, <-ended, "it ends after any messages")
}
