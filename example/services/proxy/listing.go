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

// List implements [reconciler.Lister]. What is listed is what the operations know from then on, unless it is for a plan. They
// wait meanwhile.
func (o *operations) List(ctx context.Context, _ statedb.ReadTxn, yield func(*Frontend) bool) error {
	learn := o.relearn
	if reconciler.IsPlan(ctx) {
		learn = o.look
	}
	listed, err := learn(ctx)
	if err != nil {
		return err
	}
	for at, have := range listed {
		if !yield(have.frontend(at)) {
			break
		}
	}
	return nil
}

// Get implements [reconciler.Getter]. What is read is what the operations know from then on, as with List.
func (o *operations) Get(ctx context.Context, _ statedb.ReadTxn, wanted *Frontend) (found *Frontend, ok bool, err error) {
	if err := o.lock(ctx); err != nil {
		return nil, false, err
	}
	defer o.unlock()
	was, known := o.have[wanted.At]
	l, err := o.target.Get(wanted.At, max(len(wanted.Endpoints), len(was.endpoints)))
	if err != nil {
		return nil, false, err
	}
	now, there := slotsOf(l)[wanted.At]
	if known && !now.equal(was) {
		o.stale.addUnfit()
	}
	if !there {
		delete(o.have, wanted.At)
		return nil, false, nil
	}
	o.have[wanted.At] = now
	return now.frontend(wanted.At), true, nil
}

func (s slots) equal(other slots) bool {
	return s.count == other.count && slices.Equal(s.endpoints, other.endpoints)
}

// frontend returns what is listed of a service.
func (s slots) frontend(at kernel.Service) *Frontend {
	f := &Frontend{At: at, Endpoints: slices.Clone(s.endpoints), Torn: s.count != len(s.endpoints)}
	slices.SortFunc(f.Endpoints, netip.AddrPort.Compare)
	return f
}

// look reads what the kernel has.
func (o *operations) look(ctx context.Context) (map[kernel.Service]slots, error) {
	if err := o.lock(ctx); err != nil {
		return nil, err
	}
	defer o.unlock()
	l, err := o.target.List()
	return slotsOf(l), err
}

// relearn reads what the kernel has. An earlier process, or somebody else, may have left flows that do not fit to it.
func (o *operations) relearn(ctx context.Context) (map[kernel.Service]slots, error) {
	if err := o.lock(ctx); err != nil {
		return nil, err
	}
	defer o.unlock()
	l, err := o.target.List()
	if err != nil {
		return nil, err
	}
	known := o.have
	o.have, o.unsure = slotsOf(l), false
	o.stale.addUnfit()
	for at, was := range known {
		if !o.of(at).equal(was) {
			// Somebody else has changed the table. The comparison that follows leaves out what was written while it listed,
			// which may be changed too.
			o.resync()
			break
		}
	}
	return maps.Clone(o.have), nil
}

// slotsOf sorts what was listed by service. A gap between slots has no valid endpoint, nor has a slot with something else.
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
