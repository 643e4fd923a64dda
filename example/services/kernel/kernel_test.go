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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/nettest"
)

func TestConnectionsReachAllEndpoints(t *testing.T) {
	n := newNetwork(t)
	for _, service := range []Service{web, dns} {
		n.set(service, 0, endpointAt(0), endpointAt(1), endpointAt(2))
		clients := n.client.reaches(service, endpointAt(0), endpointAt(1), endpointAt(2))
		want := map[netip.Addr]bool{netip.MustParseAddr(clientAddress): true}
		assert.Equal(t, want, clients, "the client's address stays")
		n.node.reaches(service, endpointAt(0), endpointAt(1), endpointAt(2))

		n.set(service, 3, endpointAt(3))
		n.client.reaches(service, endpointAt(3))
		n.node.reaches(service, endpointAt(3))
	}
}

func TestEndpointReachesItself(t *testing.T) {
	n := newNetwork(t)
	for _, service := range []Service{web, dns} {
		// The machine of the endpoints connects from its first address.
		n.set(service, 0, endpointAt(0))
		clients := n.endpoints.reaches(service, endpointAt(0))
		want := map[netip.Addr]bool{netip.MustParseAddr(nodeAddress): true}
		assert.Equal(t, want, clients, "it answers through the node")
	}
}

func TestOnlyEqualAddressesAreMasqueraded(t *testing.T) {
	n := newNetwork(t)
	n.set(web, 0, endpointAt(0))
	for half := range 8 {
		from := endpointAt(0).Addr().As4()
		from[half/2] ^= 0x10 >> (half % 2 * 4)
		address := netip.AddrFrom4(from)
		n.node.do(func() error {
			lo, err := netlink.LinkByName("lo")
			require.NoError(t, err)
			addr, err := netlink.ParseAddr(address.String() + "/32")
			require.NoError(t, err)
			require.NoError(t, netlink.AddrAdd(lo, addr))
			g, err := askFrom(web, netip.AddrPortFrom(address, 0))
			require.NoError(t, err)
			assert.Equal(t, address, g.Client.Addr())
			return nil
		})
	}
}

func TestServiceWithoutEndpointsRejects(t *testing.T) {
	n := newNetwork(t)
	for _, service := range []Service{web, dns} {
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
		n.set(service, 0, endpointAt(0))
		n.client.reaches(service, endpointAt(0))
		n.node.reaches(service, endpointAt(0))
	}
}

// A service may have an address of the node, where something else listens.
func TestServiceOfTheNodeRejects(t *testing.T) {
	n := newNetwork(t)
	service := Service{TCP, netip.MustParseAddrPort("10.1.0.1:80")}
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
	n.set(service, 0, endpointAt(0))
	n.client.reaches(service, endpointAt(0))
}

func TestFlowsLeaveRemovedEndpoints(t *testing.T) {
	for name, others := range map[string]int{"searched by the kernel": 0, "searched here": fewFlows} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			forget := func(endpoint netip.AddrPort) {
				flows := []Flow{{dns, endpoint}}
				for i := range others {
					flows = append(flows, Flow{numberedService(i), numberedEndpoint(i)})
				}
				require.NoError(t, n.DeleteFlows(flows...))
			}
			n.client.do(func() error {
				conn, err := dial(dns, netip.MustParseAddrPort(clientAddress+":5353"))
				require.NoError(t, err)
				defer func() { require.NoError(t, conn.Close()) }()

				// The service is unknown yet: the packet is lost outside.
				_, err = conn.Write([]byte("hello"))
				require.NoError(t, err)
				n.waitForFlow(Flow{dns, dns.Address})
				n.set(dns, 0, endpointAt(0))
				forget(dns.Address)
				g, err := nettest.Exchange(conn)
				require.NoError(t, err)
				assert.Equal(t, endpointAt(0), g.Endpoint)

				n.set(dns, 1, endpointAt(1))
				g, err = nettest.Exchange(conn)
				require.NoError(t, err)
				assert.Equal(t, endpointAt(0), g.Endpoint, "the flow exists")
				forget(endpointAt(2))
				g, err = nettest.Exchange(conn)
				require.NoError(t, err)
				assert.Equal(t, endpointAt(0), g.Endpoint, "another one was deleted")
				forget(endpointAt(0))
				g, err = nettest.Exchange(conn)
				require.NoError(t, err)
				assert.Equal(t, endpointAt(1), g.Endpoint)

				n.set(dns, 1, endpointAt(2))
				forget(netip.AddrPort{})
				g, err = nettest.Exchange(conn)
				require.NoError(t, err)
				assert.Equal(t, endpointAt(2), g.Endpoint, "any flow")
				return nil
			})
		})
	}
}

// A client whose first packet was lost, since the service was not known, sends it again, and is not lost.
func TestConnectionThatIsNotEstablishedIsTranslated(t *testing.T) {
	for name, others := range map[string]int{"searched by the kernel": 0, "searched here": fewFlows} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			answered := make(chan error, 1)
			go func() {
				answered <- n.client.try(func() error {
					g, err := ask(web)
					if err == nil && g.Endpoint != endpointAt(0) {
						err = fmt.Errorf("%s answers", g.Endpoint)
					}
					return err
				})
			}()
			n.waitForFlow(Flow{web, web.Address})
			n.set(web, 0, endpointAt(0))
			flows := []Flow{{web, web.Address}}
			for i := range others {
				flows = append(flows, Flow{numberedService(i), numberedEndpoint(i)})
			}
			require.NoError(t, n.DeleteFlows(flows...))
			require.NoError(t, <-answered)
		})
	}
}

// waitForFlow waits until conntrack has a flow.
func (n *network) waitForFlow(flow Flow) {
	n.node.do(func() error {
		for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
			flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
			if err != nil || slices.ContainsFunc(flows, flowFilter(func(f Flow) bool { return f == flow }).MatchConntrackFlow) {
				return err
			}
		}
		return fmt.Errorf("no flow of %s", flow)
	})
}

// state has two services and one that rejects.
func state(b *Batch) Listing {
	l := Listing{
		Counts: map[Service]int{web: 2, dns: 1, numberedService(9): 0},
		Slots: map[Slot]netip.AddrPort{
			{web, 0}: endpointAt(0), {web, 1}: endpointAt(1), {dns, 0}: endpointAt(2),
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
	require.NoError(t, table.Commit(b))
	assert.Equal(t, Listing{
		map[Service]int{dns: 0, numberedService(9): 3}, map[Slot]netip.AddrPort{{dns, 0}: endpointAt(4)},
	}, list(t, table))
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
	for _, name := range []string{"prerouting", "draw-2"} {
		conn.AddRule(&nftables.Rule{
			Table: table.table, Chain: &nftables.Chain{Name: name, Table: table.table},
			Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}},
		})
	}
	require.NoError(t, conn.Flush())

	again := openIn(t, p)
	assert.Equal(t, want, list(t, again))
	b = NewBatch()
	b.SetCount(dns, 2)
	require.NoError(t, again.Commit(b))
	for name, count := range map[string]int{"prerouting": 1, "draw-2": 2} {
		rules, err := conn.GetRules(table.table, &nftables.Chain{Name: name, Table: table.table})
		require.NoError(t, err)
		assert.Len(t, rules, count, name)
	}
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
	conn.DelChain(&nftables.Chain{Name: "draw-5", Table: table.table})
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
		m := b.encode(table.table.Name)
		again := map[Slot]netip.AddrPort{
			{numberedService(300), 0}: endpointAt(0), {numberedService(300), 1}: endpointAt(0),
			{numberedService(bad / 10), bad % 10}: endpointAt(1),
		}
		add := func(slot Slot, endpoint netip.AddrPort) { m.key(slot.Service, slot.Number); m.endpoint(endpoint) }
		elements(m, table.table.Name, endpointsMap, unix.NFT_MSG_NEWSETELEM, again, always, add)
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
			refuse(b, conn, table.table)
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
	pairs := sets(table.table)[3]
	require.NoError(t, conn.SetDeleteElements(pairs, same()[1:]))
	require.NoError(t, conn.SetAddElements(pairs, []nftables.SetElement{{Key: []byte{1, 2, 3, 4, 5, 6, 7, 8}}}))
	require.NoError(t, conn.Flush())
	list(t, table)
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
	conn.DelTable(table.table)
	conn.AddTable(table.table)
	for _, set := range sets(table.table) {
		set.Concatenation = false
		require.NoError(t, conn.AddSet(set, nil))
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
	p := newPlace(t)
	conn := other(t, p)
	table := conn.AddTable(&nftables.Table{Name: "services", Family: nftables.TableFamilyIPv4})
	chain := conn.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Masq{}}})
	require.NoError(t, conn.Flush())
	before := p.Generation()
	p.do(func() error {
		_, err := Open("services")
		assert.ErrorIs(t, err, ErrTaken)
		return nil
	})
	assert.Equal(t, before, p.Generation())
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

func TestOnlyIPv4IsAccepted(t *testing.T) {
	table := openNew(t)
	six := netip.MustParseAddrPort("[fd00::1]:80")
	for name, change := range map[string]func(*Batch){
		"tcp/[fd00::1]:80 slot 1":  func(b *Batch) { b.SetSlot(Slot{Service{TCP, six}, 1}, endpointAt(0)) },
		"tcp/10.96.0.1:80 slot 2":  func(b *Batch) { b.SetSlot(Slot{web, 2}, six) },
		"service tcp/[fd00::1]:80": func(b *Batch) { b.SetCount(Service{TCP, six}, 1) },
	} {
		b := NewBatch()
		b.SetCount(web, 1)
		change(b)
		assert.EqualError(t, table.Commit(b), "the kernel refuses "+name+": the address is not IPv4")
	}
	assert.Equal(t, nothing, list(t, table))
}

// A caller that bisects a batch would otherwise build it again for each of a thousand services.
func TestAllServicesThatAreNotIPv4AreNamed(t *testing.T) {
	table := openNew(t)
	six := netip.MustParseAddrPort("[fd00::1]:80")
	b := NewBatch()
	state(b)
	b.SetSlot(Slot{web, 8}, six)
	b.SetSlot(Slot{web, 7}, six)
	b.SetSlot(Slot{dns, 3}, six)
	b.SetSlot(Slot{Service{TCP, six}, 0}, endpointAt(0))
	b.SetCount(Service{TCP, six}, 1)
	b.SetCount(Service{UDP, six}, 0)
	joined, ok := table.Commit(b).(interface{ Unwrap() []error })
	require.True(t, ok)
	assert.ElementsMatch(t, []error{
		&ElementError{web, 7, ErrNotIPv4}, &ElementError{dns, 3, ErrNotIPv4},
		&ElementError{Service{TCP, six}, 0, ErrNotIPv4}, &ElementError{Service{UDP, six}, -1, ErrNotIPv4},
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
			for range 20 {
				l, err := table.List()
				assert.NoError(t, err)
				assert.Equal(t, len(l.Counts), len(l.Slots))
				assert.NoError(t, table.DeleteFlows(Flow{service, endpointAt(0)}))
			}
		})
	}
	all.Wait()
	assert.Equal(t, want, list(t, table))
}

func TestTextOfAServiceIsParsed(t *testing.T) {
	for _, service := range []Service{web, dns} {
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
