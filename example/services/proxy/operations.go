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
	"sync"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler"
)

// Target is what the operations need of a [kernel.Table].
type Target interface {
	Commit(b *kernel.Batch) error
	Get(keys kernel.Listing) (kernel.Listing, error)
	Size() (int, error)
	Repair() (wrote bool, err error)
	List() (kernel.Listing, error)
	Changed(ctx context.Context) (kernel.Changes, error)
	DeleteFlows(flows ...kernel.Flow) error
	DeleteFlowsIf(stale func(kernel.Flow) bool) error
}

// operations make the kernel have frontends. They know what it has, from listings and from what they commit, so that a
// change writes the elements that differ.
type operations struct {
	target Target

	// resync asks for a listing and a comparison of everything.
	resync func()

	// turn is a lock for commits, parts of listings, and have. It is no mutex, so that a wait for it ends with its context.
	turn chan struct{}
	// have is what is known of the kernel. A service that is not in it may be in the kernel all the same, after a commit
	// whose effect is not known: writes say what shall be, so they need not know what is.
	have map[kernel.Service]slots
	// commits is how many there were, and unsure is the number of the last one whose effect is not known: zero without any, and
	// after the listing that is asked for then.
	commits, unsure int

	// stale has a lock of its own.
	stale *stale

	// doubted are the services that others have changed since they were read: have is not believed for them.
	doubted sync.Map
}

// doubt notes that another program has changed what the kernel has of a service. It needs no turn.
func (o *operations) doubt(at kernel.Service) { o.doubted.Store(at, nil) }

// slots are what the kernel has of a service.
type slots struct {
	// count is the number of endpoints that new flows are sent to: -1 if they are not translated.
	count     int
	endpoints []netip.AddrPort
}

// absent is what is known of a service that is not in have.
var absent = slots{count: -1}

// size is the number of elements.
func (s slots) size() (n int) {
	for _, endpoint := range s.endpoints {
		if endpoint.IsValid() {
			n++
		}
	}
	if s.count >= 0 {
		n++
	}
	return n
}

func (o *operations) lock(ctx context.Context) error {
	select {
	case o.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o *operations) unlock() { <-o.turn }

// inTurn calls a function that has the turn meanwhile.
func (o *operations) inTurn(ctx context.Context, f func() error) error {
	if err := o.lock(ctx); err != nil {
		return err
	}
	defer o.unlock()
	return f()
}

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

// perCommit is about how many elements a transaction changes at most, which takes the kernel 5 ms.
const perCommit = 2000

// ProcessRound implements [reconciler.RoundOperations]: a round is one transaction, or several if it changes very much.
func (o *operations) ProcessRound(ctx context.Context, _ statedb.ReadTxn, deletes, updates []reconciler.BatchEntry[*Frontend]) {
	err := o.lock(ctx)
	if err != nil {
		for _, entries := range [][]reconciler.BatchEntry[*Frontend]{deletes, updates} {
			for i := range entries {
				entries[i].Result = err
			}
		}
		return
	}
	defer o.unlock()
	round := make([]reconciler.BatchEntry[change], 0, len(deletes)+len(updates))
	for i := range deletes {
		f := deletes[i].Object
		round = append(round, reconciler.BatchEntry[change]{Object: change{f.At, absent, &deletes[i]}, Result: o.believe(f)})
	}
	for i := range updates {
		f := updates[i].Object
		err := o.believe(f)
		if n := len(f.Endpoints); n > kernel.MaxSlots {
			err = reconciler.TerminalError(fmt.Errorf("%d endpoints are more than %d", n, kernel.MaxSlots))
		}
		next := slots{len(f.Endpoints), place(o.of(f.At).endpoints, f.Endpoints)}
		round = append(round, reconciler.BatchEntry[change]{Object: change{f.At, next, &updates[i]}, Result: err})
	}
	var unknown error // of a commit whose effect is not known
	apply := func(part []reconciler.BatchEntry[change]) error {
		if unknown != nil {
			return unknown
		}
		err, about := o.commit(part)
		if !about {
			unknown = err
		}
		return err
	}
	begin, size := 0, 0
	for i := range round {
		c := &round[i].Object
		size += 2 + max(len(c.next.endpoints), len(o.of(c.at).endpoints))
		if size >= perCommit || i == len(round)-1 {
			reconciler.Bisect(ctx, round[begin:i+1], apply, func() error { return unknown })
			begin, size = i+1, 0
		}
	}
	for i := range round {
		round[i].Object.entry.Result = round[i].Result
	}
}

// commit makes the changes of a round, all or none. about is true unless an error is not about elements: then the effect is
// not known, or another program has deleted the table, so that what no round has changed may be gone, too.
func (o *operations) commit(round []reconciler.BatchEntry[change]) (err error, about bool) {
	b := kernel.NewBatch()
	o.commits++
	for i := range round {
		o.write(b, &round[i].Object)
	}
	if err = o.target.Commit(b); err != nil {
		if err, about = blame(err, round); !about {
			clear(o.have)
			o.unsure = o.commits
			o.resync()
		}
		return err, about
	}
	for i := range round {
		c := &round[i].Object
		if _, known := o.have[c.at]; known || o.unsure == 0 || c.next.count < 0 {
			o.stale.add(false, flowsOf(c.at, o.of(c.at), c.next)...)
		} // else flows to endpoints that stay would end; those to others do after the listing
		if c.next.count < 0 {
			delete(o.have, c.at)
		} else {
			o.have[c.at] = c.next
		}
	}
	return nil, true
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
	switch {
	case c.next.count < 0:
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
		if errors.Is(each, kernel.ErrAddress) {
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
