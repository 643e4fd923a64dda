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

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler"
)

// List implements [reconciler.Lister]. What is listed is what the operations know from then on, unless it is for a plan.
func (o *operations) List(ctx context.Context, _ statedb.ReadTxn, yield func(*Frontend) bool) error {
	r := reading{operations: o, learns: !reconciler.IsPlan(ctx), found: map[kernel.Service]slots{}}
	if err := r.read(ctx); err != nil {
		return err
	}
	for at, have := range r.found {
		if !yield(have.frontend(at)) {
			break
		}
	}
	return nil
}

// Get implements [reconciler.Getter]. What is found is what the operations know from then on. Slots beyond those that are
// known or wanted are left to List.
func (o *operations) Get(ctx context.Context, _ statedb.ReadTxn, wanted *Frontend) (found *Frontend, ok bool, err error) {
	err = o.inTurn(ctx, func() error {
		o.doubt(wanted.At)
		if err := o.believe(wanted); err != nil {
			return err
		}
		have, is := o.have[wanted.At]
		found, ok = have.frontend(wanted.At), is
		return nil
	})
	return found, ok, err
}

// believe looks at what the kernel has of a service that is doubted, and knows that from then on. A row may have been changed
// before the loop looks at it. The caller has the turn.
func (o *operations) believe(f *Frontend) error {
	// Before the look, which does not see what is changed after it.
	if _, doubted := o.doubted.LoadAndDelete(f.At); !doubted {
		return nil
	}
	r := reading{operations: o, learns: true, found: map[kernel.Service]slots{}}
	err := r.look(f.At, slots{absent.count, f.Endpoints})
	if err != nil {
		o.doubt(f.At)
	}
	if r.drifts {
		r.stale.add(true)
	}
	return err
}

func (s slots) equal(other slots) bool {
	return s.count == other.count && slices.Equal(s.endpoints, other.endpoints)
}

// frontend returns what was found of a service.
func (s slots) frontend(at kernel.Service) *Frontend {
	f := &Frontend{At: at, Endpoints: slices.Clone(s.endpoints), Torn: s.count != len(s.endpoints)}
	slices.SortFunc(f.Endpoints, netip.AddrPort.Compare)
	return f
}

// reading is a look at all that the kernel has. What is known is asked for by key, one service in a turn, so that changes do
// not wait for it: each is compared with what is known then. All is listed only if the kernel has more than that.
type reading struct {
	*operations
	// learns is set if the operations know from then on what is found.
	learns bool
	found  map[kernel.Service]slots
	// drifts is set if somebody else has changed what was known, or slots without a service were not known.
	drifts bool
}

func (r *reading) read(ctx context.Context) error {
	if _, err := r.target.Repair(); err != nil {
		return err
	}
	known, begin, err := r.known(ctx)
	if err == nil {
		err = r.ask(ctx, known)
	}
	more := false
	if err == nil {
		more, err = r.hasMore(ctx)
	}
	if err == nil && more {
		if err = r.list(ctx); err == nil {
			more, err = r.hasMore(ctx) // a list that is read while others commit may lack elements
		}
	}
	if err != nil || !r.learns {
		return err
	}
	if r.drifts || more {
		// The comparison that follows leaves out what was written meanwhile, which may be changed too.
		r.resync()
	}
	return r.inTurn(ctx, func() error {
		if r.unsure <= begin {
			r.unsure = 0
		}
		// From now on commits add their own flows. An earlier process, or somebody else, may have left others that do not fit.
		r.stale.add(true)
		return nil
	})
}

// hasMore reports whether the kernel has another number of elements than is known. What a plan finds is not known then.
func (r *reading) hasMore(ctx context.Context) (more bool, err error) {
	err = r.inTurn(ctx, func() error {
		size, err := r.target.Size()
		for _, s := range r.have {
			size -= s.size()
		}
		more = size != 0 || !r.learns
		return err
	})
	return more, err
}

// known returns what is known now, and after how many commits that is.
func (o *operations) known(ctx context.Context) (have map[kernel.Service]slots, commits int, err error) {
	err = o.inTurn(ctx, func() error {
		have, commits = maps.Clone(o.have), o.commits
		return nil
	})
	return have, commits, err
}

// ask asks for services: for the elements that are known in their turn, and for others that were seen before.
func (r *reading) ask(ctx context.Context, seen map[kernel.Service]slots) error {
	for at, s := range seen {
		if err := r.inTurn(ctx, func() error { return r.look(at, s) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) look(at kernel.Service, seen slots) error {
	keys, known := kernel.NewListing(), r.of(at)
	if keys.Counts[at] = known.count; seen.count != known.count {
		keys.Counts[at] = absent.count // it may be with those that reject, or not
	}
	for _, endpoints := range [][]netip.AddrPort{known.endpoints, seen.endpoints} {
		for i, endpoint := range endpoints {
			if endpoint.IsValid() {
				keys.Slots[kernel.Slot{Service: at, Number: i}] = endpoint
			}
		}
	}
	l, err := r.target.Get(keys)
	if err == nil {
		r.take(at, slotsOf(l))
	}
	return err
}

// list has the kernel list all. If nothing is committed meanwhile, that is so; otherwise it says what to ask for.
func (r *reading) list(ctx context.Context) error {
	_, begin, err := r.known(ctx)
	if err != nil {
		return err
	}
	l, err := r.target.List()
	if err != nil {
		return err
	}
	listed, seen := slotsOf(l), map[kernel.Service]slots{}
	err = r.inTurn(ctx, func() error {
		maps.Copy(seen, r.have)
		maps.Copy(seen, listed)
		if r.commits == begin {
			for at := range seen {
				r.take(at, listed)
			}
			clear(seen)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.ask(ctx, seen)
}

// take notes what was found of a service.
func (r *reading) take(at kernel.Service, found map[kernel.Service]slots) {
	was, known := r.have[at]
	now, is := found[at]
	// The deletion of a service that have lacks leaves its slots. If it was during this listing, the comparison leaves it out.
	if (known || is && now.count < 0) && (!is || !now.equal(was)) {
		r.drifts = true
	}
	if r.found[at] = now; !is {
		delete(r.found, at)
	}
	if !r.learns {
		return
	}
	if r.have[at] = now; !is {
		delete(r.have, at)
	}
}

// slotsOf sorts what was listed by service. A gap between slots has no valid endpoint.
func slotsOf(l kernel.Listing) map[kernel.Service]slots {
	have := make(map[kernel.Service]slots, len(l.Counts))
	for at, count := range l.Counts {
		have[at] = slots{count, make([]netip.AddrPort, 0, max(count, 0))}
	}
	for slot, endpoint := range l.Slots {
		s, known := have[slot.Service]
		if !known {
			s = absent
		}
		if missing := slot.Number + 1 - len(s.endpoints); missing > 0 {
			s.endpoints = append(s.endpoints, make([]netip.AddrPort, missing)...)
		}
		s.endpoints[slot.Number] = endpoint
		have[slot.Service] = s
	}
	return have
}

// equal reports whether a listed frontend is as the table wants it. Which endpoint has which slot does not matter.
func equal(wanted, found *Frontend) bool {
	return !found.Torn && slices.Equal(wanted.Endpoints, found.Endpoints)
}

// diff says what is wrong with a listed frontend.
func diff(wanted, found *Frontend) string {
	if found.Torn {
		return "its slots have gaps or are too many"
	}
	return fmt.Sprintf("the kernel has %d endpoint(s), %v, not %v", len(found.Endpoints), found.Endpoints, wanted.Endpoints)
}
