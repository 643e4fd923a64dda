// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/google/nftables"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/internal/recheck"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/nettest"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// String names the service, for reports.
func (s *Service) String() string { return fmt.Sprintf("%s at %s", s.Name, texts(s.Addresses)) }

// String names the slice with its endpoints, for reports.
func (s *EndpointSlice) String() string {
	return fmt.Sprintf("%s of %s: %v", s.Name, s.Service, s.Endpoints)
}

var (
	web   = kernel.Service{Protocol: kernel.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}
	dns   = kernel.Service{Protocol: kernel.UDP, Address: netip.MustParseAddrPort("10.96.0.1:53")}
	admin = kernel.Service{Protocol: kernel.TCP, Address: netip.MustParseAddrPort("10.96.0.2:80")}
	six   = twin(web)
)

// twin returns a service of IPv6 beside one of IPv4.
func twin(at kernel.Service) kernel.Service {
	return kernel.Service{Protocol: at.Protocol, Address: nettest.TwinOf(at.Address)}
}

func endpointAt(n int) netip.AddrPort { return nettest.EndpointAt(n) }

// endpointOf returns an endpoint of the family of a service.
func endpointOf(at kernel.Service, n int) netip.AddrPort {
	if at.Address.Addr().Is6() {
		return nettest.TwinOf(endpointAt(n))
	}
	return endpointAt(n)
}

// wish is a service with its endpoints, of one port that has no name.
type wish struct {
	Name      string
	At        kernel.Service
	Created   time.Time
	Endpoints []wished
}

type wished struct {
	Address netip.AddrPort
	Ready   bool
}

// service returns a wish whose endpoints are ready.
func service(name string, at kernel.Service, endpoints ...int) *wish {
	w := &wish{Name: name, At: at}
	for _, n := range endpoints {
		w.Endpoints = append(w.Endpoints, wished{endpointOf(at, n), true})
	}
	return w
}

// ready returns what new clients reach: each endpoint once, sorted.
func (w *wish) ready() (ready []netip.AddrPort) {
	for _, e := range w.Endpoints {
		if e.Ready && e.Address.Addr().BitLen() == w.At.Address.Addr().BitLen() && !slices.Contains(ready, e.Address) {
			ready = append(ready, e.Address)
		}
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return ready
}

func (w *wish) service() *Service {
	return &Service{
		Name: w.Name, Created: w.Created, Addresses: []netip.Addr{w.At.Address.Addr()},
		Ports: []Port{{Protocol: w.At.Protocol, Number: w.At.Address.Port()}},
	}
}

// slices returns two slices for each port of the endpoints. The first endpoint of a port is in both.
func (w *wish) slices() (all []*EndpointSlice) {
	of := map[uint16][]*EndpointSlice{}
	for i, e := range w.Endpoints {
		port := e.Address.Port()
		first := of[port] == nil
		for n := range 2 {
			if first {
				of[port] = append(of[port], &EndpointSlice{
					Name: fmt.Sprintf("%s-%d-%d", w.Name, port, n), Service: w.Name, Ports: []Port{{Protocol: w.At.Protocol, Number: port}},
				})
				all = append(all, of[port][n])
			}
			if first || n == i%2 {
				of[port][n].Endpoints = append(of[port][n].Endpoints, Endpoint{Address: e.Address.Addr(), Ready: e.Ready, Serving: e.Ready})
			}
		}
	}
	return all
}

// kernelCannot are faults that a kernel does not have: it answers what it did, when it did it.
var kernelCannot = []string{"success without effect", "late effect"}

// states are those of the kit: endpoints that come, go and are replaced, a service that has none, or no row, or an address
// that another one had.
func states() [][]*wish {
	return [][]*wish{
		{service("web", web, 0, 1, 2), service("dns", dns, 0, 1), service("admin", admin, 4), service("six", six, 0, 1)},
		{service("web", web, 2, 3), service("dns", dns), service("admin", admin, 4, 5), service("six", six, 1, 2, 3)},
		{service("other", web, 5), service("dns", dns, 1, 2, 3), service("six", six)},
	}
}

// rowsOf returns rows of the states.
func rowsOf[Row any](of func(*wish) []Row) func(*rand.Rand) [][]Row {
	return func(*rand.Rand) (all [][]Row) {
		for _, state := range states() {
			var rows []Row
			for _, w := range state {
				rows = append(rows, of(w)...)
			}
			all = append(all, rows)
		}
		return all
	}
}

// subject is a subject of the kit with two tables.
func subject[T any](s reconcilertest.Subject[*Service, T]) reconcilertest.Subject[*Service, T] {
	s.Table, s.Without = NewServices, kernelCannot
	s.States = rowsOf(func(w *wish) []*Service { return []*Service{w.service()} })
	s.Further = []reconcilertest.Further{reconcilertest.Rows[*EndpointSlice]{Table: NewSlices, States: rowsOf((*wish).slices)}}
	return s
}

// startProgram starts what the cell does.
func startProgram(e *reconcilertest.Env[*Service], target Target) {
	frontends, err := NewFrontends(e.DB)
	require.NoError(e, err)
	endpoints := reconcilertest.TableOf[*EndpointSlice](e)
	d, err := Derive(derive.Config[*Frontend]{DB: e.DB, Registry: e.Registry}, e.Table, endpoints, frontends)
	require.NoError(e, err)
	e.Cleanup(d.Close)
	ops, started := newOperations(target), make(chan *reconciler.Loop[*Frontend], 1)
	ops.resync = func() {
		loop := <-started
		started <- loop
		loop.Resync()
	}
	_, health := cell.NewSimpleHealth()
	reconcilertest.Go(e, func(ctx context.Context) error { return ops.keepForgetting(ctx, health) })
	loop := reconcilertest.Start(e, config(ops, frontends, Options{}))
	started <- loop
	looks := recheck.New[*Frontend](loop)
	w := &watcher{ops, e.DB, frontends, looks, quiet}
	reconcilertest.Go(e, func(ctx context.Context) error { return w.run(ctx, health) })
	reconcilertest.Go(e, func(ctx context.Context) error { return looks.Run(ctx, health) })
	reconcilertest.Go(e, d.Run)
}

// A service that only somebody else wants, and one of which this program knows nothing.
var (
	orphan  = kernel.Service{Protocol: kernel.UDP, Address: netip.MustParseAddrPort("10.96.0.9:53")}
	unknown = kernel.Service{Protocol: kernel.UDP, Address: netip.MustParseAddrPort("10.97.0.1:53")}
)

func TestAFakeKernelEndsAsAFreshStartLeavesIt(t *testing.T) {
	outside := map[string]func(f *fake){
		"a service and a slot are added": func(f *fake) {
			f.counts[orphan], f.slots[kernel.Slot{Service: orphan}] = 1, elsewhere
			f.slots[kernel.Slot{Service: web, Number: 5}] = elsewhere
		},
		"a slot is removed":    func(f *fake) { delete(f.slots, kernel.Slot{Service: web}) },
		"a service is removed": func(f *fake) { delete(f.counts, dns) },
		"a slot is edited":     func(f *fake) { f.slots[kernel.Slot{Service: dns}] = elsewhere },
		"a number is edited":   func(f *fake) { f.counts[web] = 1 },
		"all is removed":       func(f *fake) { clear(f.slots); clear(f.counts) },
	}
	s := subject(reconcilertest.Subject[*Service, *fake]{
		Target: func(testing.TB) *fake { return newFake() }, Dump: (*fake).dump,
		Start:   func(e *reconcilertest.Env[*Service], f *fake) { startProgram(e, process{f, e.Context()}) },
		Foreign: func(f *fake) { f.foreign[kernel.Flow{Service: unknown, Endpoint: elsewhere}] = true },
		Outside: map[string]func(*fake){}, Runs: 500,
	})
	for name, change := range outside {
		s.Outside[name] = func(f *fake) { f.outside(func() { change(f) }) }
	}
	reconcilertest.Check(t, s)
}

// node is a kernel in a namespace, with another program in it.
type node struct {
	*foreign
	at    *nettest.Place
	table *kernel.Table // of the other program
}

func (n *node) dump() map[string]string {
	rules := n.foreign.dump() // first: a listing may write rules
	l, err := n.table.List()
	for range 1000 {
		if err == nil {
			break
		}
		time.Sleep(time.Millisecond) // the kernel moves a set to another table, for which it needs the processor
		l, err = n.table.List()
	}
	require.NoError(n, err)
	has := dumpOf(l)
	for _, text := range rules {
		has[text] = "present"
	}
	return has
}

// outside makes a change of the other program.
func (n *node) outside(change func(b *kernel.Batch)) {
	b := kernel.NewBatch()
	change(b)
	_ = n.table.Commit(b) // the table may be gone
}

func TestTheKernelEndsAsAFreshStartLeavesIt(t *testing.T) {
	change := func(change func(b *kernel.Batch)) func(*node) { return func(n *node) { n.outside(change) } }
	reconcilertest.Check(t, subject(reconcilertest.Subject[*Service, *node]{
		RealTime: true, Runs: 40, Dump: (*node).dump,
		Target: func(t testing.TB) *node {
			at := nettest.NewPlace(t)
			table := openTable(t, at)
			return &node{newForeign(t, at), at, table}
		},
		Start: func(e *reconcilertest.Env[*Service], n *node) {
			table, err := open(n.at)
			require.NoError(e, err)
			e.Cleanup(func() { require.NoError(e, table.Close()) })
			startProgram(e, process{table, e.Context()})
		},
		Outside: map[string]func(*node){
			"a service and a slot are added": change(func(b *kernel.Batch) {
				b.SetCount(orphan, 1)
				b.SetSlot(kernel.Slot{Service: orphan}, elsewhere)
				b.SetSlot(kernel.Slot{Service: web, Number: 5}, elsewhere)
			}),
			"a slot is removed":    change(func(b *kernel.Batch) { b.DeleteSlot(kernel.Slot{Service: web}) }),
			"a service is removed": change(func(b *kernel.Batch) { b.DeleteService(dns) }),
			"a slot is edited":     change(func(b *kernel.Batch) { b.SetSlot(kernel.Slot{Service: dns}, elsewhere) }),
			"a number is edited":   change(func(b *kernel.Batch) { b.SetCount(web, 1) }),
			"a rule is removed": func(n *node) {
				n.conn.FlushChain(&nftables.Chain{Name: "prerouting", Table: ours()})
				_ = n.conn.Flush() // the table may be gone
			},
		},
	}))
}
