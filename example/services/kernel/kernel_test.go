// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/nettest"
)

func TestConnectionsReachAllEndpoints(t *testing.T) {
	n := newNetwork(t)
	for _, service := range all {
		first := []netip.AddrPort{endpointOf(service, 0), endpointOf(service, 1), endpointOf(service, 2)}
		n.set(service, 0, first...)
		clients := n.client.reaches(service, first...)
		want := map[netip.Addr]bool{beside(service, clientAddress): true}
		assert.Equal(t, want, clients, "the client's address stays")
		n.node.reaches(service, first...)

		n.set(service, 3, endpointOf(service, 3))
		n.client.reaches(service, endpointOf(service, 3))
		n.node.reaches(service, endpointOf(service, 3))
	}
}

func TestEndpointReachesItself(t *testing.T) {
	n := newNetwork(t)
	for _, service := range all {
		// The machine of the endpoints connects from one of its addresses, which need not be the first.
		n.set(service, 0, endpointOf(service, 0))
		clients := map[netip.Addr]bool{}
		n.endpoints.do(func() error {
			g, err := askFrom(service, netip.AddrPortFrom(endpointOf(service, 0).Addr(), 0))
			clients[g.Client.Addr()] = true
			return err
		})
		want := map[netip.Addr]bool{beside(service, nodeAddress): true}
		assert.Equal(t, want, clients, "it answers through the node")
	}
}

func TestOnlyEqualAddressesAreMasqueraded(t *testing.T) {
	n := newNetwork(t)
	for _, service := range []Service{web, twin(web)} {
		n.set(service, 0, endpointOf(service, 0))
		for half := range 2 * len(endpointOf(service, 0).Addr().AsSlice()) {
			from := endpointOf(service, 0).Addr().AsSlice()
			from[half/2] ^= 0x10 >> (half % 2 * 4)
			address, _ := netip.AddrFromSlice(from)
			n.node.do(func() error {
				link, err := netlink.LinkByName("to-" + endpointAt(0).Addr().String())
				require.NoError(t, err)
				require.NoError(t, nettest.AddTo(link, netip.PrefixFrom(address, address.BitLen())))
				g, err := askFrom(service, netip.AddrPortFrom(address, 0))
				require.NoError(t, err)
				assert.Equal(t, address, g.Client.Addr())
				return nil
			})
		}
	}
}

func TestServiceWithoutEndpointsRejects(t *testing.T) {
	n := newNetwork(t)
	for _, service := range all {
		n.set(service, 1)
		n.client.do(func() error {
			_, err := ask(service)
			assert.ErrorIs(t, err, unix.ECONNREFUSED)
			return nil
		})
		n.node.do(func() error {
			_, err := ask(service)
			if service.Protocol == UDP {
				assert.ErrorIs(t, err, unix.EPERM, "to send a packet that the machine itself rejects is an error at once")
			} else {
				assert.ErrorIs(t, err, unix.ECONNREFUSED)
			}
			return nil
		})
		n.set(service, 0, endpointOf(service, 0))
		n.client.reaches(service, endpointOf(service, 0))
		n.node.reaches(service, endpointOf(service, 0))
	}
}

// A service may have an address of the node, where something else listens.
func TestServiceOfTheNodeRejects(t *testing.T) {
	n := newNetwork(t)
	four := Service{TCP, netip.MustParseAddrPort("10.1.0.1:80")}
	for _, service := range []Service{four, twin(four)} {
		n.node.do(func() error {
			l, err := net.Listen("tcp", service.Address.String())
			if err == nil {
				t.Cleanup(func() { require.NoError(t, l.Close()) })
			}
			return err
		})
		n.set(service, 0)
		n.client.do(func() error {
			_, err := ask(service)
			assert.ErrorIs(t, err, unix.ECONNREFUSED)
			return nil
		})
		n.set(service, 0, endpointOf(service, 0))
		n.client.reaches(service, endpointOf(service, 0))
	}
}

// searches calls a test for both families, with few flows, which the kernel searches for IPv4, and with so many that they
// are searched here: the last argument adds the others.
func searches(t *testing.T, service Service, test func(*network, Service, func(...Flow) []Flow)) {
	for name, others := range map[string]int{"by the kernel": 0, "here": fewFlows} {
		for _, service := range []Service{service, twin(service)} {
			t.Run(service.String()+" "+name, func(t *testing.T) {
				test(newNetwork(t), service, func(flows ...Flow) []Flow {
					for i := range others {
						flows = append(flows, Flow{numberedService(i), numberedEndpoint(i)})
					}
					return flows
				})
			})
		}
	}
}

func TestFlowsLeaveRemovedEndpoints(t *testing.T) {
	searches(t, dns, func(n *network, dns Service, more func(...Flow) []Flow) {
		forget := func(endpoint netip.AddrPort) { require.NoError(n, n.DeleteFlows(more(Flow{dns, endpoint})...)) }
		n.client.do(func() error {
			conn, err := dial(dns, netip.AddrPortFrom(beside(dns, clientAddress), 5353))
			require.NoError(n, err)
			defer func() { require.NoError(n, conn.Close()) }()

			// The service is unknown yet: the packet is lost outside.
			_, err = conn.Write([]byte("hello"))
			require.NoError(n, err)
			n.waitForFlow(Flow{dns, dns.Address})
			n.set(dns, 0, endpointOf(dns, 0))
			forget(dns.Address)
			answers := func(i int, why string) {
				n.Helper()
				g, err := nettest.Exchange(conn)
				require.NoError(n, err)
				assert.Equal(n, endpointOf(dns, i), g.Endpoint, why)
			}
			answers(0, "the service is known")
			n.set(dns, 1, endpointOf(dns, 1))
			answers(0, "the flow exists")
			forget(endpointOf(dns, 2))
			answers(0, "another one was deleted")
			forget(endpointOf(dns, 0))
			answers(1, "its flow was deleted")
			n.set(dns, 1, endpointOf(dns, 2))
			forget(netip.AddrPort{})
			answers(2, "any flow")
			return nil
		})
	})
}

// A client whose first packet was lost, since the service was not known, sends it again, and is not lost.
func TestConnectionThatIsNotEstablishedIsTranslated(t *testing.T) {
	searches(t, web, func(n *network, web Service, more func(...Flow) []Flow) {
		answered := make(chan error, 1)
		go func() {
			answered <- n.client.try(func() error {
				g, err := ask(web)
				if err == nil && g.Endpoint != endpointOf(web, 0) {
					err = fmt.Errorf("%s answers", g.Endpoint)
				}
				return err
			})
		}()
		n.waitForFlow(Flow{web, web.Address})
		n.set(web, 0, endpointOf(web, 0))
		require.NoError(n, n.DeleteFlows(more(Flow{web, web.Address})...))
		require.NoError(n, <-answered)
	})
}

// waitForFlow waits until conntrack has a flow.
func (n *network) waitForFlow(flow Flow) {
	family := netlink.InetFamily(unix.AF_INET)
	if flow.Address.Addr().Is6() {
		family = unix.AF_INET6
	}
	n.node.do(func() error {
		for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
			flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
			if err != nil || slices.ContainsFunc(flows, flowFilter(func(f Flow) bool { return f == flow }).MatchConntrackFlow) {
				return err
			}
		}
		return fmt.Errorf("no flow of %s", flow)
	})
}

// state has two services of each family and one that rejects.
func state(b *Batch) Listing {
	l := Listing{
		Counts: map[Service]int{web: 2, dns: 1, numberedService(9): 0, twin(web): 2, twin(dns): 1, twin(numberedService(9)): 0},
		Slots: map[Slot]netip.AddrPort{
			{web, 0}: endpointAt(0), {web, 1}: endpointAt(1), {dns, 0}: endpointAt(2),
			{twin(web), 0}: endpointOf(twin(web), 0), {twin(web), 1}: endpointOf(twin(web), 1),
			{twin(dns), 0}: endpointOf(twin(dns), 2),
		},
	}
	for slot, endpoint := range l.Slots {
		b.SetSlot(slot, endpoint)
	}
	for service, n := range l.Counts {
		b.SetCount(service, n)
	}
	return l
}

// nothing is the listing of an empty table.
var nothing = Listing{map[Service]int{}, map[Slot]netip.AddrPort{}}

func list(t *testing.T, table *Table) Listing {
	t.Helper()
	l, err := table.List()
	require.NoError(t, err)
	return l
}

func TestListingHasWhatWasCommitted(t *testing.T) {
	table := openNew(t)
	assert.Equal(t, nothing, list(t, table))

	b := NewBatch()
	want := state(b)
	require.NoError(t, table.Commit(b))
	assert.Equal(t, want, list(t, table))

	require.NoError(t, table.Commit(b), "it is empty now")
	state(b)
	require.NoError(t, table.Commit(b), "changes may be repeated")
	assert.Equal(t, want, list(t, table))

	b.DeleteService(web)
	b.DeleteSlot(Slot{web, 0})
	b.DeleteSlot(Slot{web, 1})
	b.DeleteSlot(Slot{web, 2}) // it is empty
	b.SetCount(dns, 0)
	b.SetSlot(Slot{dns, 0}, endpointAt(3))
	b.SetSlot(Slot{dns, 0}, endpointAt(4)) // the last change counts
	b.SetCount(numberedService(9), 3)
	for _, service := range []Service{web, dns, numberedService(9)} {
		b.DeleteService(twin(service))
	}
	b.DeleteSlot(Slot{twin(web), 0})
	b.DeleteSlot(Slot{twin(web), 1})
	b.SetSlot(Slot{twin(dns), 0}, endpointOf(twin(dns), 3))
	require.NoError(t, table.Commit(b))
	assert.Equal(t, Listing{
		map[Service]int{dns: 0, numberedService(9): 3},
		map[Slot]netip.AddrPort{{dns, 0}: endpointAt(4), {twin(dns), 0}: endpointOf(twin(dns), 3)},
	}, list(t, table))
}

// Elements are found by their keys among any number that are missing, and those of others by their number.
func TestElementsAreFoundByTheirKeys(t *testing.T) {
	const services = 100
	p := newPlace(t)
	table := openIn(t, p)
	b, want, keys := NewBatch(), NewListing(), NewListing()
	for i := range services {
		for _, service := range []Service{numberedService(i), twin(numberedService(i))} {
			slot := Slot{service, i}
			keys.Counts[service], keys.Slots[slot] = i%3-1, netip.AddrPort{}
			if i%5 == 0 || 40 < i && i < 60 {
				continue
			}
			want.Counts[service], want.Slots[slot] = max(0, i%3-1), endpointOf(service, i%10)
			b.SetCount(service, want.Counts[service])
			b.SetSlot(slot, want.Slots[slot])
		}
	}
	size := func(others int) {
		t.Helper()
		n, err := table.Size()
		require.NoError(t, err)
		require.Equal(t, len(want.Counts)+len(want.Slots)+others, n)
	}
	require.NoError(t, table.Commit(b))
	found, err := table.Get(keys)
	require.NoError(t, err)
	require.Equal(t, want, found)
	size(0)

	// Another program changes a slot, makes a service go elsewhere and be in both sets, and adds elements.
	require.NoError(t, p.Nft(`
		add element ip services endpoints { tcp . 10.96.9.9 . 80 . 0 : 10.2.0.99 . 8080 }
		add element ip services endpoints { tcp . 10.96.9.9 . 80 . 70000 : 10.2.0.99 . 8080 }
		delete element ip services endpoints { tcp . 10.96.0.1 . 80 . 1 }
		add element ip services endpoints { tcp . 10.96.0.1 . 80 . 1 : 10.2.0.99 . 8080 }
		add element ip6 services services { tcp . fd00::a60:3 . 80 : drop, * : accept }
		add element ip services empty { tcp . 10.96.0.2 . 80 }`))
	want.Slots[Slot{numberedService(1), 1}] = netip.MustParseAddrPort("10.2.0.99:8080")
	for _, service := range []Service{numberedService(2), twin(numberedService(3))} {
		want.Counts[service], keys.Counts[service] = absent, absent
	}
	found, err = table.Get(keys)
	require.NoError(t, err)
	require.Equal(t, want, found)
	size(5)
	stranger := Slot{Service{TCP, netip.MustParseAddrPort("10.96.9.9:80")}, 0}
	want.Slots[stranger] = netip.MustParseAddrPort("10.2.0.99:8080")
	require.Equal(t, want, list(t, table))
	size(2) // a service in both sets, and one that rejects and goes elsewhere

	conn := other(t, p)
	conn.FlushRuleset()
	require.NoError(t, conn.Flush())
	found, err = table.Get(keys)
	require.NoError(t, err)
	require.Equal(t, nothing, found, "there is no table")
	want = nothing
	size(0)
}

// The kernel enlarges its tables some time after they were filled.
func TestListingIsCompleteAtOnce(t *testing.T) {
	const services = 10_000
	table := openNew(t)
	load(t, table, services, 1000)
	l := list(t, table)
	assert.Len(t, l.Counts, services)
	assert.Len(t, l.Slots, 10*services)
}

// other returns a connection of another program to the namespace of the table.
func other(t *testing.T, p place) (conn *nftables.Conn) {
	p.do(func() (err error) {
		conn, err = nftables.New(nftables.AsLasting())
		return err
	})
	t.Cleanup(func() { require.NoError(t, conn.CloseLasting()) })
	return conn
}

// openIn opens a table in a namespace.
func openIn(t testing.TB, p place) (table *Table) {
	p.do(func() (err error) {
		table, err = Open("services")
		return err
	})
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table
}

func TestRulesOfAnotherVersionAreReplaced(t *testing.T) {
	p := newPlace(t)
	table, conn := openIn(t, p), other(t, p)
	b := NewBatch()
	want := state(b)
	require.NoError(t, table.Commit(b))
	for _, single := range table.tables {
		for _, name := range []string{"prerouting", "draw-2"} {
			conn.AddRule(&nftables.Rule{
				Table: single.table, Chain: &nftables.Chain{Name: name, Table: single.table},
				Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}},
			})
		}
	}
	require.NoError(t, conn.Flush())

	again := openIn(t, p)
	assert.Equal(t, want, list(t, again))
	b = NewBatch()
	b.SetCount(dns, 2)
	b.SetCount(twin(dns), 2)
	require.NoError(t, again.Commit(b))
	for _, single := range table.tables {
		for name, count := range map[string]int{"prerouting": 1, "draw-2": 2} {
			rules, err := conn.GetRules(single.table, &nftables.Chain{Name: name, Table: single.table})
			require.NoError(t, err)
			assert.Len(t, rules, count, name)
		}
	}
}

// The first version had no IPv6, and another rule that masquerades. Its services go on while it is replaced.
func TestTableOfTheFirstVersionIsKept(t *testing.T) {
	n := newNetwork(t)
	conn := other(t, n.node)
	n.set(web, 0, endpointAt(0))
	want := list(t, n.Table)
	four, six := n.tables[0].table, n.tables[1].table
	conn.DelTable(six)
	postrouting := &nftables.Chain{Name: "postrouting", Table: four}
	conn.FlushChain(postrouting)
	old := []expr.Any{&expr.Ct{Key: expr.CtKeySTATUS, Register: keyRegister}}
	zero := make([]byte, 4)
	for _, mask := range halfBytes {
		for i, register := range []uint32{keyRegister, addressRegister} {
			old = append(old,
				&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: uint32(12 + 4*i), Len: 4},
				&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: mask[:], Xor: zero})
		}
		old = append(old, &expr.Lookup{SourceRegister: keyRegister, SetName: sameSet})
	}
	comment := userdata.AppendString(nil, userdata.TypeComment, "statekeel 1: from an endpoint to itself")
	conn.AddRule(&nftables.Rule{Table: four, Chain: postrouting, Exprs: append(old, &expr.Masq{}), UserData: comment})
	require.NoError(t, conn.Flush())
	n.client.reaches(web, endpointAt(0))

	before := n.node.Generation()
	n.Table = openIn(t, n.node)
	require.Equal(t, before+2, n.node.Generation(), "a transaction for each table")
	require.Equal(t, want, list(t, n.Table))
	n.client.reaches(web, endpointAt(0))
	n.set(twin(web), 0, endpointOf(twin(web), 0))
	n.client.reaches(twin(web), endpointOf(twin(web), 0))
	before = n.node.Generation()
	list(t, openIn(t, n.node))
	require.Equal(t, before, n.node.Generation(), "an equal table gets no write")
}

func TestRefusedElementHasNoEffect(t *testing.T) {
	p := newPlace(t)
	table, conn := openIn(t, p), other(t, p)
	b := NewBatch()
	b.SetCount(web, 5)
	require.NoError(t, table.Commit(b))
	want := state(b)
	require.NoError(t, table.Commit(b))

	// No element refers to the chain for five endpoints now, so another program can delete it.
	conn.DelChain(&nftables.Chain{Name: "draw-5", Table: table.tables[0].table})
	require.NoError(t, conn.Flush())
	change := func() error {
		b.SetCount(dns, 5)
		b.SetCount(numberedService(1), 1)
		b.SetSlot(Slot{numberedService(1), 0}, endpointAt(0))
		return table.Commit(b)
	}
	err := change()
	var refused *ElementError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, &ElementError{dns, -1, unix.ENOENT}, refused)
	assert.EqualError(t, err, "the kernel refuses service udp/10.96.0.1:53: no such file or directory")
	assert.Equal(t, want, list(t, table))

	require.NoError(t, change(), "the socket has no answer left, and the chain is there again")
	want.Counts[dns], want.Counts[numberedService(1)] = 5, 1
	want.Slots[Slot{numberedService(1), 0}] = endpointAt(0)
	assert.Equal(t, want, list(t, table))
}

// The element that the kernel refuses is found among many, in any message.
func TestErrorNamesTheElement(t *testing.T) {
	table := openNew(t)
	for _, bad := range []int{0, 1, 999, 1000, 2999} {
		b := NewBatch()
		for i := range 3000 {
			b.SetSlot(Slot{numberedService(i / 10), i % 10}, endpointAt(0))
		}
		// The batch itself never asks for what the kernel refuses: so it gets a second value for a slot.
		m := b.encode("services")
		again := map[Slot]netip.AddrPort{
			{numberedService(300), 0}: endpointAt(0), {numberedService(300), 1}: endpointAt(0),
			{numberedService(bad / 10), bad % 10}: endpointAt(1),
		}
		add := func(slot Slot, endpoint netip.AddrPort) { m.key(slot.Service, slot.Number); m.endpoint(endpoint) }
		elements(m, table.tables[0].family, "services", endpointsMap, unix.NFT_MSG_NEWSETELEM, again,
			func(Slot, netip.AddrPort) bool { return true }, add)
		err := table.commit(m)
		assert.Equal(t, errors.Join(&ElementError{numberedService(bad / 10), bad % 10, unix.EEXIST}), err)
	}
	assert.Equal(t, nothing, list(t, table))
}

// A commit reports that the elements are gone, even if the batch before was refused for another reason.
func TestDeletedTableIsNotWrittenAgainUnseen(t *testing.T) {
	for name, refuse := range map[string]func(b *Batch, conn *nftables.Conn, table *nftables.Table){
		"after a batch that is too large": func(b *Batch, _ *nftables.Conn, _ *nftables.Table) {
			for i := range 300_000 {
				b.SetSlot(Slot{numberedService(i / 10), i % 10}, endpointAt(0))
			}
		},
		"after an element that was refused": func(b *Batch, conn *nftables.Conn, table *nftables.Table) {
			conn.DelChain(&nftables.Chain{Name: "draw-5", Table: table})
			require.NoError(t, conn.Flush())
			b.SetCount(dns, 5)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			table, conn := openIn(t, p), other(t, p)
			b := NewBatch()
			b.SetCount(web, 5)
			require.NoError(t, table.Commit(b))
			state(b)
			require.NoError(t, table.Commit(b))
			refuse(b, conn, table.tables[0].table)
			require.Error(t, table.Commit(b))

			conn.FlushRuleset()
			require.NoError(t, conn.Flush())
			b.SetCount(dns, 1)
			require.ErrorIs(t, table.Commit(b), unix.ENOENT)
		})
	}
}

// A ruleset that was saved without elements (nft --terse) is no exception, nor is a pair too many.
func TestListingWritesPairsOfEqualHalfBytesAgain(t *testing.T) {
	p := newPlace(t)
	table, conn := openIn(t, p), other(t, p)
	b := NewBatch()
	state(b)
	require.NoError(t, table.Commit(b))
	six := table.tables[1].table
	pairs := table.tables[1].sets(six)[3]
	require.NoError(t, conn.SetDeleteElements(pairs, same()[1:]))
	require.NoError(t, conn.SetAddElements(pairs, []nftables.SetElement{{Key: []byte{1, 2, 3, 4, 5, 6, 7, 8}}}))
	require.NoError(t, conn.Flush())
	before := p.Generation()
	list(t, table)
	require.Equal(t, before+1, p.Generation(), "packets see the set and all rules that use a set at once")
	rules, err := conn.GetRules(six, &nftables.Chain{Name: "draw-2", Table: six})
	require.NoError(t, err)
	require.Len(t, rules, 2)
	var want []string
	for _, e := range same() {
		want = append(want, string(e.Key))
	}
	slices.Sort(want)
	// It skips some elements while the kernel moves them.
	require.Eventually(t, func() bool {
		have, err := conn.GetSetElements(pairs)
		require.NoError(t, err)
		var keys []string
		for _, e := range have {
			keys = append(keys, string(e.Key))
		}
		slices.Sort(keys)
		return slices.Equal(want, keys)
	}, limit, time.Millisecond)
}

// The program nft says more about a set than the library: the kernel refuses to add one that is there and that somebody has
// restored with it.
func TestRulesOfARestoredTableAreWritten(t *testing.T) {
	p := newPlace(t)
	table, conn := openIn(t, p), other(t, p)
	for _, single := range table.tables {
		conn.DelTable(single.table)
		conn.AddTable(single.table)
		for _, set := range single.sets(single.table) {
			set.Concatenation = false
			require.NoError(t, conn.AddSet(set, nil))
		}
	}
	require.NoError(t, conn.Flush())
	assert.Equal(t, nothing, list(t, table))
	b := NewBatch()
	want := state(b)
	require.NoError(t, table.Commit(b))
	assert.Equal(t, want, list(t, table))
}

// The name may be that of another program's table, whose rules must not be replaced.
func TestTableOfAnotherProgramIsRefused(t *testing.T) {
	for _, family := range families {
		t.Run(fmt.Sprint(8*family.size, " bits"), func(t *testing.T) { refusesTableOfAnother(t, family.TableFamily) })
	}
}

func refusesTableOfAnother(t *testing.T, family nftables.TableFamily) {
	p := newPlace(t)
	conn := other(t, p)
	table := conn.AddTable(&nftables.Table{Name: "services", Family: family})
	chain := conn.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Masq{}}})
	require.NoError(t, conn.Flush())
	p.do(func() error {
		_, err := Open("services")
		assert.ErrorIs(t, err, ErrTaken)
		return nil
	})
	rules, err := conn.GetRules(table, chain)
	require.NoError(t, err)
	require.Len(t, rules, 1)
	assert.Equal(t, []expr.Any{&expr.Masq{}}, rules[0].Exprs)
}

func TestTooLargeBatchHasNoEffect(t *testing.T) {
	table := openNew(t)
	b := NewBatch()
	for i := range 300_000 {
		b.SetSlot(Slot{numberedService(i / 10), i % 10}, endpointAt(0))
	}
	require.ErrorIs(t, table.Commit(b), ErrTooLarge)
	assert.Equal(t, nothing, list(t, table))
	want := state(b)
	require.NoError(t, table.Commit(b))
	assert.Equal(t, want, list(t, table))
}

func TestAddressesThatNoTableCanHaveAreRefused(t *testing.T) {
	table := openNew(t)
	zone, mapped := netip.MustParseAddrPort("[fe80::1%eth0]:80"), netip.MustParseAddrPort("[::ffff:10.96.0.1]:80")
	for name, change := range map[string]func(*Batch){
		"tcp/[fe80::1%eth0]:80 slot 1":      func(b *Batch) { b.SetSlot(Slot{Service{TCP, zone}, 1}, zone) },
		"tcp/10.96.0.1:80 slot 2":           func(b *Batch) { b.SetSlot(Slot{web, 2}, twin(web).Address) },
		"tcp/[fd00::a60:1]:80 slot 2":       func(b *Batch) { b.SetSlot(Slot{twin(web), 2}, web.Address) },
		"tcp/[fd00::a60:1]:80 slot 3":       func(b *Batch) { b.SetSlot(Slot{twin(web), 3}, zone) },
		"tcp/[fd00::a60:1]:80 slot 4":       func(b *Batch) { b.SetSlot(Slot{twin(web), 4}, mapped) },
		"service tcp/[fe80::1%eth0]:80":     func(b *Batch) { b.SetCount(Service{TCP, zone}, 1) },
		"service tcp/[::ffff:10.96.0.1]:80": func(b *Batch) { b.SetCount(Service{TCP, mapped}, 1) },
		"service tcp/invalid AddrPort":      func(b *Batch) { b.SetCount(Service{Protocol: TCP}, 1) },
	} {
		b := NewBatch()
		b.SetCount(web, 1)
		change(b)
		assert.EqualError(t, table.Commit(b),
			"the kernel refuses "+name+": the address is not plain IPv4 or IPv6, or not of the family of the service")
	}
	assert.Equal(t, nothing, list(t, table))
}

// A caller that bisects a batch would otherwise build it again for each of a thousand services.
func TestAllServicesThatNoTableCanHaveAreNamed(t *testing.T) {
	table := openNew(t)
	zone := netip.MustParseAddrPort("[fe80::1%eth0]:80")
	b := NewBatch()
	state(b)
	b.SetSlot(Slot{web, 8}, zone)
	b.SetSlot(Slot{web, 7}, zone)
	b.SetSlot(Slot{dns, 3}, twin(dns).Address)
	b.SetSlot(Slot{Service{TCP, zone}, 0}, endpointAt(0))
	b.SetCount(Service{TCP, zone}, 1)
	b.SetCount(Service{UDP, zone}, 0)
	b.DeleteService(Service{TCP, netip.AddrPortFrom(zone.Addr(), 81)})
	joined, ok := table.Commit(b).(interface{ Unwrap() []error })
	require.True(t, ok)
	assert.ElementsMatch(t, []error{
		&ElementError{web, 7, ErrAddress}, &ElementError{dns, 3, ErrAddress},
		&ElementError{Service{TCP, zone}, 0, ErrAddress}, &ElementError{Service{UDP, zone}, -1, ErrAddress},
	}, joined.Unwrap())
}

func TestGoroutinesTakeTurns(t *testing.T) {
	table := openNew(t)
	var all sync.WaitGroup
	want := Listing{make(map[Service]int), make(map[Slot]netip.AddrPort)}
	for i := range 4 {
		service := numberedService(i)
		want.Counts[service], want.Slots[Slot{service, 0}] = 1, endpointAt(99)
		all.Go(func() {
			b := NewBatch()
			for k := range 100 {
				b.SetSlot(Slot{service, 0}, endpointAt(k))
				b.SetCount(service, 1)
				assert.NoError(t, table.Commit(b))
			}
		})
		all.Go(func() {
			keys := Listing{map[Service]int{service: 1}, map[Slot]netip.AddrPort{{service, 0}: {}}}
			for range 20 {
				l, err := table.Get(keys)
				assert.NoError(t, err)
				assert.Equal(t, len(l.Counts), len(l.Slots))
				_, err = table.List()
				assert.NoError(t, err)
				assert.NoError(t, table.DeleteFlows(Flow{service, endpointAt(0)}))
			}
		})
	}
	all.Wait()
	assert.Equal(t, want, list(t, table))
}

func TestTextOfAServiceIsParsed(t *testing.T) {
	for _, service := range all {
		parsed, err := ParseService(service.String())
		require.NoError(t, err)
		require.Equal(t, service, parsed)
	}
	for text, want := range map[string]string{
		"10.96.0.1:80":      `"10.96.0.1:80" does not begin with tcp/ or udp/`,
		"sctp/10.96.0.1:80": `"sctp/10.96.0.1:80" does not begin with tcp/ or udp/`,
		"tcp/10.96.0.1":     `"tcp/10.96.0.1": not an ip:port`,
	} {
		_, err := ParseService(text)
		require.EqualError(t, err, want)
	}
}
