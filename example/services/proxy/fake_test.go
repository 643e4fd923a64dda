// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler/edge"
)

// fake is a kernel in memory, with a client for each service, which always sends from the same port. Those of TCP get no
// answer to their first packet.
type fake struct {
	mu     sync.Mutex
	counts map[kernel.Service]int
	slots  map[kernel.Slot]netip.AddrPort
	// flows are what conntrack has of the clients: one flow each.
	flows map[kernel.Service]netip.AddrPort
	// foreign are flows of others.
	foreign map[kernel.Flow]bool
	// refuses returns why the kernel refuses an element: that of a slot, or of a service if the slot is negative.
	refuses func(service kernel.Service, slot int) error
	// most is how many elements a batch may have; zero means any number.
	most    int
	commits int
	// changes are what others have changed; nil if they change nothing.
	changes chan kernel.Changes
}

func newFake() *fake {
	return &fake{
		counts: map[kernel.Service]int{}, slots: map[kernel.Slot]netip.AddrPort{},
		flows: map[kernel.Service]netip.AddrPort{}, foreign: map[kernel.Flow]bool{},
	}
}

// commit makes the changes of a batch.
func (f *fake) commit(b *kernel.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commits++
	for slot, endpoint := range b.Slots {
		if f.slots[slot] = endpoint; !endpoint.IsValid() {
			delete(f.slots, slot)
		}
	}
	for service, n := range b.Counts {
		if f.counts[service] = n; n < 0 {
			delete(f.counts, service)
		}
		if _, has := f.flows[service]; !has {
			f.flows[service] = netip.AddrPort{} // it has a client from now on
		}
	}
	f.traffic()
}

// check returns why the kernel refuses a batch.
func (f *fake) check(b *kernel.Batch) error {
	if f.most > 0 && len(b.Slots)+len(b.Counts) > f.most {
		return fmt.Errorf("%w: it has %d elements", kernel.ErrTooLarge, len(b.Slots)+len(b.Counts))
	}
	refused := func(service kernel.Service, slot int, addresses ...netip.AddrPort) error {
		for _, a := range append(addresses, service.Address) {
			if a.IsValid() && (a.Addr().Zone() != "" || a.Addr().BitLen() != service.Address.Addr().BitLen()) {
				return &kernel.ElementError{Service: service, Slot: slot, Err: kernel.ErrAddress}
			}
		}
		if f.refuses != nil {
			if err := f.refuses(service, slot); err != nil {
				return &kernel.ElementError{Service: service, Slot: slot, Err: err}
			}
		}
		return nil
	}
	for slot, endpoint := range b.Slots {
		if err := refused(slot.Service, slot.Number, endpoint); err != nil {
			return err
		}
	}
	for service := range b.Counts {
		if err := refused(service, -1); err != nil {
			return err
		}
	}
	return nil
}

// traffic has each client without a flow send a packet, and each with one send it the same way.
func (f *fake) traffic() {
	for service, to := range f.flows {
		n, known := f.counts[service]
		switch {
		case to.IsValid():
		case !known:
			f.flows[service] = service.Address
		case n > 0:
			f.flows[service] = f.slots[kernel.Slot{Service: service}]
		}
	}
}

func (f *fake) list() kernel.Listing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return kernel.Listing{Counts: maps.Clone(f.counts), Slots: maps.Clone(f.slots)}
}

// deleteFlowsIf deletes flows.
func (f *fake) deleteFlowsIf(stale func(kernel.Flow) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for service, to := range f.flows {
		if to.IsValid() && stale(kernel.Flow{Service: service, Endpoint: to}) {
			f.flows[service] = netip.AddrPort{}
		}
	}
	maps.DeleteFunc(f.foreign, func(flow kernel.Flow, _ bool) bool { return stale(flow) })
	f.traffic()
}

// elsewhere is where slots go that somebody else has changed.
var elsewhere = netip.MustParseAddrPort("10.2.0.99:8080")

// outside makes changes of somebody else, to what is there.
func (f *fake) outside(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// dump returns what a fresh start on the same rows has, too: which endpoint has which slot is left out.
func (f *fake) dump() map[string]string {
	l := f.list()
	has := dumpOf(l)
	f.mu.Lock()
	defer f.mu.Unlock()
	for flow := range f.foreign {
		has["foreign flow "+flow.String()] = "present"
	}
	for service, to := range f.flows {
		n, known := l.Counts[service]
		switch {
		case !to.IsValid() || to == elsewhere:
		case to == service.Address:
			if n > 0 {
				has["flow of "+service.String()] = "not translated"
			}
		case known:
			// What was wanted of a service that is gone is nowhere after a restart, so nothing ends its flows then.
			if !slices.ContainsFunc(slotsOf(l)[service].endpoints, func(e netip.AddrPort) bool { return e == to }) {
				has["flow of "+service.String()] = "to " + to.String() + ", which is gone"
			}
		}
	}
	return has
}

// dumpOf returns a listing as texts. The slots of a service are sorted, except those that are too many or too few.
func dumpOf(l kernel.Listing) map[string]string {
	has := map[string]string{}
	endpoints := map[kernel.Service][]string{}
	for slot, endpoint := range l.Slots {
		if slot.Number < l.Counts[slot.Service] {
			endpoints[slot.Service] = append(endpoints[slot.Service], endpoint.String())
		} else {
			has[slot.String()] = "too many: " + endpoint.String()
		}
	}
	for service, n := range l.Counts {
		slices.Sort(endpoints[service])
		has[service.String()] = fmt.Sprintf("%d: %s", n, endpoints[service])
	}
	return has
}

func (f *fake) Commit(b *kernel.Batch) error {
	defer clear(b.Slots)
	defer clear(b.Counts)
	if err := f.check(b); err != nil || len(b.Slots)+len(b.Counts) == 0 {
		return err
	}
	f.commit(b)
	return nil
}

func (f *fake) Get(keys kernel.Listing) (kernel.Listing, error) {
	l := f.list()
	maps.DeleteFunc(l.Counts, func(at kernel.Service, n int) bool {
		asked, is := keys.Counts[at]
		return !is || asked >= 0 && min(asked, 1) != min(n, 1)
	})
	maps.DeleteFunc(l.Slots, func(slot kernel.Slot, _ netip.AddrPort) bool {
		_, asked := keys.Slots[slot]
		return !asked
	})
	return l, nil
}

func (f *fake) Size() (int, error) {
	l := f.list()
	return len(l.Counts) + len(l.Slots), nil
}

func (f *fake) List() (kernel.Listing, error) { return f.list(), nil }

func (f *fake) Changed(ctx context.Context) (c kernel.Changes, err error) {
	select {
	case <-ctx.Done():
		return c, ctx.Err()
	case c = <-f.changes:
		return c, nil
	}
}

func (f *fake) Repair() (wrote bool, err error) { return false, nil }

func (f *fake) DeleteFlows(flows ...kernel.Flow) error {
	return f.DeleteFlowsIf(among(flows))
}

// among returns a function that reports whether a flow is one of these.
func among(flows []kernel.Flow) func(kernel.Flow) bool {
	return func(flow kernel.Flow) bool {
		return slices.Contains(flows, flow) || slices.Contains(flows, kernel.Flow{Service: flow.Service})
	}
}

func (f *fake) DeleteFlowsIf(stale func(kernel.Flow) bool) error {
	f.deleteFlowsIf(stale)
	return nil
}

// process is a kernel for one life of a program. Each request is a step, which has a deadline.
type process struct {
	Target
	ctx context.Context
}

func (p process) do(step string, f func() error) error {
	ctx, cancel := context.WithTimeout(p.ctx, 50*time.Millisecond)
	defer cancel()
	return edge.Do(ctx, step, f)
}

func (p process) Commit(b *kernel.Batch) error {
	if len(b.Slots)+len(b.Counts) == 0 {
		return nil // there is nothing to fail
	}
	return p.do("commit", func() error { return p.Target.Commit(b) })
}

func (p process) Get(keys kernel.Listing) (l kernel.Listing, err error) {
	err = p.do("ask", func() (err error) { l, err = p.Target.Get(keys); return err })
	return l, err
}

func (p process) Size() (n int, err error) {
	err = p.do("count", func() (err error) { n, err = p.Target.Size(); return err })
	return n, err
}

func (p process) Repair() (wrote bool, err error) {
	err = p.do("repair", func() (err error) { wrote, err = p.Target.Repair(); return err })
	return wrote, err
}

func (p process) List() (l kernel.Listing, err error) {
	err = p.do("read", func() (err error) { l, err = p.Target.List(); return err })
	return l, err
}

func (p process) DeleteFlows(flows ...kernel.Flow) error {
	return p.beside("delete flows", func() error { return p.Target.DeleteFlows(flows...) })
}

func (p process) DeleteFlowsIf(stale func(kernel.Flow) bool) error {
	return p.beside("delete some flows", func() error { return p.Target.DeleteFlowsIf(stale) })
}

// beside makes a request outside of rounds and listings, where a panic would end the program.
func (p process) beside(step string, f func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	return p.do(step, f)
}
