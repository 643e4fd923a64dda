// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler"
)

// Target is what the operations need of a [kernel.Table].
type Target interface {
	Commit(b *kernel.Batch) error
	List() (kernel.Listing, error)
	DeleteFlows(flows ...kernel.Flow) error
	DeleteFlowsIf(stale func(kernel.Flow) bool) error
}

// operations make the kernel have frontends. They know what it has, from listings and from what they commit, so that a
// change writes the elements that differ.
type operations struct {
	target Target

	// turn is a lock for the target and all fields below. It is no mutex, so that a wait for it ends with its context.
	turn chan struct{}
	have map[kernel.Service]slots
	// doubt is why have may be wrong: the error of a commit that is not about elements. Its effect is not known, or another
	// program has deleted the table. nil means that have is right.
	doubt error
	// resync asks for a comparison of everything; nil does not.
	resync func()
	// stale are the flows that are to be deleted since a commit, until that has worked.
	stale map[kernel.Service][]kernel.Flow

	// initialized reports whether the frontends are complete. If they were not at the last listing, loading is set, and no
	// round looks for flows that were not translated: the listing that follows when all is in the kernel does that once.
	// With 100,000 flows, each look takes 0.4 s.
	initialized func(statedb.ReadTxn) bool
	loading     bool
}

// slots are what the kernel has of a service.
type slots struct {
	// count is the number of endpoints that new flows are sent to: -1 if they are not translated.
	count     int
	endpoints []netip.AddrPort
}

// absent is what the kernel has of a service that it does not know.
var absent = slots{count: -1}

func (o *operations) lock(ctx context.Context) error {
	select {
	case o.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o *operations) unlock() { <-o.turn }

func (o *operations) of(at kernel.Service) slots {
	if have, known := o.have[at]; known {
		return have
	}
	return absent
}

// change is what an entry of a round asks for.
type change struct {
	at    kernel.Service
	next  slots
	entry *reconciler.BatchEntry[*Frontend]
}

// check returns why no service can have these endpoints, which are sorted.
func check(endpoints []netip.AddrPort) error {
	switch n := len(endpoints); {
	case n > maxSlots:
		return fmt.Errorf("%d endpoints are more than %d", n, maxSlots)
	case n > 0 && !endpoints[0].IsValid():
		return errors.New("an endpoint has no address")
	}
	return nil
}

// ProcessRound implements [reconciler.RoundOperations]: a round is one transaction.
func (o *operations) ProcessRound(ctx context.Context, _ statedb.ReadTxn, deletes, updates []reconciler.BatchEntry[*Frontend]) {
	err := o.lock(ctx)
	if err == nil {
		defer o.unlock()
		err = o.settle()
	}
	if err != nil {
		for _, entries := range [][]reconciler.BatchEntry[*Frontend]{deletes, updates} {
			for i := range entries {
				entries[i].Result = err
			}
		}
		return
	}
	round := make([]reconciler.BatchEntry[change], 0, len(deletes)+len(updates))
	for i := range deletes {
		round = append(round, reconciler.BatchEntry[change]{Object: change{deletes[i].Object.At, absent, &deletes[i]}})
	}
	for i := range updates {
		f := updates[i].Object
		if err := check(f.Endpoints); err != nil {
			updates[i].Result = reconciler.TerminalError(err)
			continue
		}
		next := slots{len(f.Endpoints), place(o.of(f.At).endpoints, f.Endpoints)}
		round = append(round, reconciler.BatchEntry[change]{Object: change{f.At, next, &updates[i]}})
	}
	settled := false
	reconciler.Bisect(ctx, round, o.commit, func() error {
		// Another doubt in a round is no accident: each half would have one.
		if o.doubt == nil || settled {
			return o.doubt
		}
		settled = true
		return o.settle()
	})
	o.deleteFlows(round)
	for i := range round {
		round[i].Object.entry.Result = round[i].Result
	}
}

// settle ends a doubt: it reads what the kernel has, and asks for a resync, since what no round has changed may be gone, too.
func (o *operations) settle() error {
	if o.doubt == nil {
		return nil
	}
	if err := o.read(); err != nil {
		return fmt.Errorf("%w, after: %w", err, o.doubt)
	}
	if o.doubt = nil; o.resync != nil {
		o.resync()
	}
	return nil
}

// read reads what the kernel has.
func (o *operations) read() error {
	l, err := o.target.List()
	if err == nil {
		o.have = slotsOf(l)
	}
	return err
}

// commit makes the changes of a round, all or none.
func (o *operations) commit(round []reconciler.BatchEntry[change]) error {
	b := kernel.NewBatch()
	for i := range round {
		o.write(b, &round[i].Object)
	}
	err := o.target.Commit(b)
	if err != nil {
		var about bool
		if err, about = blame(err, round); about {
			return err
		}
		o.doubt = err
	}
	for i := range round {
		c := &round[i].Object
		if flows := o.flowsOf(c.at, o.of(c.at), c.next); len(flows) > 0 {
			o.stale[c.at] = append(o.stale[c.at], flows...)
		}
		if err != nil {
			continue
		}
		if c.next.count < 0 {
			delete(o.have, c.at)
		} else {
			o.have[c.at] = c.next
		}
	}
	return err
}

// write adds the elements in which a service differs from what the kernel has.
func (o *operations) write(b *kernel.Batch, c *change) {
	have := o.of(c.at)
	for i, endpoint := range c.next.endpoints {
		if i >= len(have.endpoints) || have.endpoints[i] != endpoint {
			b.SetSlot(kernel.Slot{Service: c.at, Number: i}, endpoint)
		}
	}
	for i := len(c.next.endpoints); i < len(have.endpoints); i++ {
		b.DeleteSlot(kernel.Slot{Service: c.at, Number: i})
	}
	_, known := o.have[c.at]
	switch {
	case c.next.count < 0 && known: // also one that goes elsewhere
		b.DeleteService(c.at)
	case c.next.count != have.count:
		b.SetCount(c.at, c.next.count)
	}
}

// place returns the slots for wanted endpoints, which are sorted. One that has a slot keeps it, if there is still such a
// slot; the others fill the gaps. So the last slot moves to that of a removed endpoint, and slots have no gaps.
func place(have, wanted []netip.AddrPort) []netip.AddrPort {
	placed, used := make([]netip.AddrPort, len(wanted)), make([]bool, len(wanted))
	for slot, endpoint := range have[:min(len(have), len(wanted))] {
		if i, found := slices.BinarySearchFunc(wanted, endpoint, netip.AddrPort.Compare); found && !used[i] {
			placed[slot], used[i] = endpoint, true
		}
	}
	next := 0
	for slot := range placed {
		if placed[slot].IsValid() {
			continue
		}
		for used[next] {
			next++
		}
		placed[slot], used[next] = wanted[next], true
	}
	return placed
}

// blame says which entries of a round the kernel refuses. about is true if the error is about the elements of the round.
func blame(err error, round []reconciler.BatchEntry[change]) (blamed error, about bool) {
	if errors.Is(err, kernel.ErrTooLarge) {
		return err, true
	}
	places := map[kernel.Service]int{}
	for i := range round {
		places[round[i].Object.at] = i
	}
	for _, each := range flatten(err) {
		var refused *kernel.ElementError
		if !errors.As(each, &refused) {
			return err, false
		}
		place, known := places[refused.Service]
		if !known {
			return err, false
		}
		if errors.Is(each, kernel.ErrNotIPv4) {
			each = reconciler.TerminalError(each)
		}
		blamed = errors.Join(blamed, reconciler.Blame(each, place))
	}
	return blamed, true
}

// flatten returns the errors that are joined in an error.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// flowsOf returns the flows that conntrack has to forget after a change: those of UDP to endpoints that are gone, and those
// that were not translated because there was no endpoint. Flows of TCP end with their endpoint. What a service had that is
// not known may have been forgotten, so all its flows of UDP end.
func (o *operations) flowsOf(at kernel.Service, from, to slots) (flows []kernel.Flow) {
	switch {
	case o.loading:
	case at.Protocol == kernel.UDP && from.count < 0 && to.count >= 0:
		return []kernel.Flow{{Service: at}}
	case from.count <= 0 && to.count > 0:
		flows = append(flows, kernel.Flow{Service: at, Endpoint: at.Address})
	}
	if at.Protocol != kernel.UDP {
		return flows
	}
	for _, endpoint := range from.endpoints {
		if endpoint.IsValid() && !slices.Contains(to.endpoints, endpoint) {
			flows = append(flows, kernel.Flow{Service: at, Endpoint: endpoint})
		}
	}
	return flows
}

// deleteFlows deletes the flows that the commit has left. If that fails, so do the entries, whose next attempt tries again.
func (o *operations) deleteFlows(round []reconciler.BatchEntry[change]) {
	var flows []kernel.Flow
	for i := range round {
		if round[i].Result == nil {
			flows = append(flows, o.stale[round[i].Object.at]...)
		}
	}
	if len(flows) == 0 {
		return
	}
	err := o.target.DeleteFlows(flows...)
	for i := range round {
		at := round[i].Object.at
		switch {
		case round[i].Result != nil || len(o.stale[at]) == 0:
		case err != nil:
			round[i].Result = fmt.Errorf("the service is changed, and conntrack has its old flows: %w", err)
		default:
			delete(o.stale, at)
		}
	}
}

// forget has conntrack forget flows that go where the kernel has no endpoint: an earlier process may have left them, or
// somebody else who changed the table. It must be called with the lock held, when have is what was listed.
func (o *operations) forget() error {
	return o.target.DeleteFlowsIf(func(flow kernel.Flow) bool {
		have, known := o.have[flow.Service]
		if !known || have.count < 0 {
			return false
		}
		if flow.Endpoint == flow.Service.Address {
			return have.count > 0
		}
		return flow.Protocol == kernel.UDP && !slices.Contains(have.endpoints, flow.Endpoint)
	})
}
