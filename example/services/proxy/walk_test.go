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
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler"
)

// unsteady is a fake kernel that fails now and then, also after the effect.
type unsteady struct {
	*fake
	draw func() int
}

func (u unsteady) fail(f func()) error {
	switch u.draw() {
	case 1:
		return unix.ENOMEM
	case 2:
		f()
		return unix.ENOBUFS // the answer is lost
	}
	f()
	return nil
}

func (u unsteady) Commit(b *kernel.Batch) error {
	defer clear(b.Slots)
	defer clear(b.Counts)
	if err := u.check(b); err != nil || len(b.Slots)+len(b.Counts) == 0 {
		return err
	}
	return u.fail(func() { u.commit(b) })
}

func (u unsteady) List() (l kernel.Listing, err error) {
	err = u.fail(func() { l = u.list() })
	return l, err
}

func (u unsteady) DeleteFlows(flows ...kernel.Flow) error {
	return u.DeleteFlowsIf(among(flows))
}

func (u unsteady) DeleteFlowsIf(stale func(kernel.Flow) bool) error {
	return u.fail(func() { u.deleteFlowsIf(stale) })
}

// Rounds end as they should without a resync, whatever the kernel refuses and whatever fails, unless they ask for one: what
// has no error is in the kernel, what has one is there after another attempt.
func TestRoundsNeedNoResyncThatTheyDoNotAskFor(t *testing.T) {
	six := netip.MustParseAddrPort("[fd00::1]:80")
	services := []kernel.Service{
		web, dns, admin, {Protocol: kernel.UDP, Address: netip.MustParseAddrPort("10.96.0.3:53")},
		{Protocol: kernel.TCP, Address: six},
	}
	// cannot reports whether the kernel cannot have what is wanted.
	cannot := func(w *Frontend) bool { return w != nil && (w.At.Address == six || slices.Contains(w.Endpoints, six)) }
	rapid.Check(t, func(t *rapid.T) {
		fails := true
		f := newFake()
		f.most = rapid.SampledFrom([]int{0, 8, 20}).Draw(t, "most elements in a batch")
		u := unsteady{f, func() int {
			if !fails {
				return 0
			}
			return rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "fails")
		}}
		var ops *operations
		asked := false
		start := func() {
			ops = newOperations(u)
			ops.resync = func() { asked = true }
		}
		start()
		wanted, failed := map[kernel.Service]*Frontend{}, map[kernel.Service]bool{}
		// lost are services that were deleted before a restart: what conntrack has of them is found by nothing. forgotten
		// is false while conntrack fails.
		lost, forgotten := map[kernel.Service]bool{}, true
		bad := func(at kernel.Service) bool { return cannot(wanted[at]) }
		round := func(changed map[kernel.Service]bool) {
			var deletes, updates []reconciler.BatchEntry[*Frontend]
			for _, at := range services {
				switch w := wanted[at]; {
				case !changed[at] && !failed[at]:
				case w == nil:
					deletes = append(deletes, reconciler.BatchEntry[*Frontend]{Object: &Frontend{At: at}})
				default:
					updates = append(updates, reconciler.BatchEntry[*Frontend]{Object: w})
				}
			}
			if len(deletes)+len(updates) == 0 {
				return
			}
			ops.ProcessRound(context.Background(), nil, deletes, updates)
			forgotten = ops.forget(context.Background()) == nil
			for _, e := range slices.Concat(deletes, updates) {
				require.True(t, e.Result != nil || !bad(e.Object.At), "an address that the kernel cannot have")
				failed[e.Object.At] = e.Result != nil
			}
		}
		dump := func(left func(kernel.Service) bool) map[string]string {
			l := kernel.Listing{Counts: map[kernel.Service]int{}, Slots: map[kernel.Slot]netip.AddrPort{}}
			for at, w := range wanted {
				if w == nil || left(at) {
					continue
				}
				l.Counts[at] = len(w.Endpoints)
				for i, endpoint := range w.Endpoints {
					l.Slots[kernel.Slot{Service: at, Number: i}] = endpoint
				}
			}
			return dumpOf(l)
		}
		compare := func(left func(kernel.Service) bool) {
			has := f.dump()
			for _, at := range services {
				if left(at) {
					maps.DeleteFunc(has, func(name, _ string) bool { return concerns(name, at) })
				}
			}
			// Slots that are too many, and old flows, wait for the listing.
			maps.DeleteFunc(has, func(name, _ string) bool {
				return asked && strings.Contains(name, " slot ") || (asked || !forgotten) && strings.HasPrefix(name, "flow of ")
			})
			require.Equal(t, dump(left), has)
			for _, at := range services {
				if to := f.flows[at]; wanted[at] == nil && !left(at) && !lost[at] && !asked && forgotten {
					require.True(t, !to.IsValid() || to == at.Address, "a flow of %s goes to %s", at, to)
				}
			}
		}
		resync := func() {
			found := map[kernel.Service]*Frontend{}
			if ops.List(context.Background(), nil, func(l *Frontend) bool { found[l.At] = l; return true }) != nil {
				return
			}
			asked = false
			forgotten = ops.forget(context.Background()) == nil
			changed := map[kernel.Service]bool{}
			for _, at := range services {
				w, l := wanted[at], found[at]
				changed[at] = (w == nil) != (l == nil) || w != nil && !equal(w, l)
			}
			round(changed)
		}
		restart := func() {
			start()
			for _, at := range services {
				if wanted[at] == nil {
					lost[at], failed[at] = true, false
				}
			}
			for asked = true; asked; {
				resync()
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			changed := map[kernel.Service]bool{}
			for _, at := range services {
				endpoints := rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 0, 5, rapid.ID).Draw(t, at.String())
				switch rapid.IntRange(0, 5).Draw(t, "change") {
				case 0:
					wanted[at] = nil
				case 1, 2, 3:
					w := &Frontend{At: at, Endpoints: []netip.AddrPort{}}
					for _, i := range endpoints {
						w.Endpoints = append(w.Endpoints, endpointAt(i))
					}
					if rapid.IntRange(0, 9).Draw(t, "six") == 0 {
						w.Endpoints = append(w.Endpoints, six)
					}
					slices.SortFunc(w.Endpoints, netip.AddrPort.Compare)
					wanted[at] = w
				default:
					continue
				}
				changed[at] = true
				delete(lost, at)
			}
			round(changed)
			switch rapid.IntRange(0, 15).Draw(t, "event") {
			case 0:
				resync()
			case 1:
				restart()
			}
			compare(func(at kernel.Service) bool { return failed[at] })
		}
		fails = false
		round(nil)
		round(nil)
		if asked {
			resync()
		}
		require.NoError(t, ops.forget(context.Background()))
		forgotten = true
		compare(bad)
		for at, has := range failed {
			require.Equal(t, bad(at), has, "%s has failed", at)
		}
	})
}

// concerns reports whether a name of a dump is about a service.
func concerns(name string, at kernel.Service) bool {
	for _, format := range []string{"%s", "flow of %s"} {
		if name == fmt.Sprintf(format, at) {
			return true
		}
	}
	for i := range 20 {
		if name == (kernel.Slot{Service: at, Number: i}).String() {
			return true
		}
	}
	return false
}
