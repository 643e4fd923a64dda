// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler"
)

// entryOf returns the entry of a round for a service with one endpoint.
func entryOf(at kernel.Service) []reconciler.BatchEntry[*Frontend] {
	return []reconciler.BatchEntry[*Frontend]{{Object: &Frontend{At: at, Endpoints: []netip.AddrPort{endpointAt(0)}}}}
}

// A node runs for months, and services come and go.
func TestNothingIsKeptOfAServiceThatIsGone(t *testing.T) {
	ops := newOperations(process{newFake(), t.Context()})
	for _, at := range []kernel.Service{web, dns} {
		entry := entryOf(at)
		for range 2 {
			ops.ProcessRound(t.Context(), nil, nil, entry)
			require.NoError(t, entry[0].Result)
		}
		ops.ProcessRound(t.Context(), nil, entry, nil)
		require.NoError(t, entry[0].Result)
	}
	require.Empty(t, ops.have)
}

// Clients that had no answer, and those that an earlier process left, need no new port.
func TestFlowsOfAServiceThatGetsItsFirstEndpointEnd(t *testing.T) {
	for name, to := range map[string]netip.AddrPort{"not translated": dns.Address, "to an endpoint that is gone": elsewhere} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			ops := newOperations(process{f, t.Context()})
			f.flows[dns] = to
			entry := entryOf(dns)
			ops.ProcessRound(t.Context(), nil, nil, entry)
			require.NoError(t, entry[0].Result)
			require.NoError(t, ops.forget(t.Context()))
			require.Equal(t, endpointAt(0), f.flows[dns])
		})
	}
}

// What is applied is found again by a listing: otherwise each one would write it again.
func TestAsManyEndpointsAsAreListed(t *testing.T) {
	for _, n := range []int{kernel.MaxSlots, kernel.MaxSlots + 1} {
		f := newFake()
		ops := newOperations(f)
		entry := entryOf(web)
		entry[0].Object.Endpoints = make([]netip.AddrPort, n)
		for i := range n {
			entry[0].Object.Endpoints[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80)
		}
		ops.ProcessRound(t.Context(), nil, nil, entry)
		if n > kernel.MaxSlots {
			require.EqualError(t, entry[0].Result, "65537 endpoints are more than 65536")
			require.Empty(t, f.counts)
			continue
		}
		require.NoError(t, entry[0].Result)
		require.NoError(t, ops.List(t.Context(), nil, func(found *Frontend) bool {
			require.True(t, equal(entry[0].Object, found))
			return true
		}))
	}
}

func TestAFlowToAnEndpointWithTheAddressOfTheServiceFits(t *testing.T) {
	have := map[kernel.Service]slots{dns: {1, []netip.AddrPort{dns.Address}}}
	require.True(t, fits(kernel.Flow{Service: dns, Endpoint: dns.Address}, have))
}

// An endpoint that comes back before conntrack was searched has its clients again.
func TestFlowsToAnEndpointThatIsBackStay(t *testing.T) {
	f := newFake()
	ops := newOperations(f)
	round := func(endpoints ...netip.AddrPort) {
		entry := entryOf(dns)
		entry[0].Object.Endpoints = endpoints
		ops.ProcessRound(t.Context(), nil, nil, entry)
		require.NoError(t, entry[0].Result)
	}
	round(endpointAt(0), endpointAt(1))
	require.NoError(t, ops.forget(t.Context()))
	f.flows[dns] = endpointAt(1)
	round(endpointAt(0))
	round(endpointAt(0), endpointAt(1))
	require.NoError(t, ops.forget(t.Context()))
	require.Equal(t, endpointAt(1), f.flows[dns])
}

var errLost = errors.New("answers are lost")

// unknownEffect is a fake whose next commit fails, without an element that is refused.
type unknownEffect struct {
	*fake
	fails bool
}

func (k *unknownEffect) Commit(b *kernel.Batch) error {
	if k.fails {
		k.fails = false
		return errLost
	}
	return k.fake.Commit(b)
}

// A lost answer about one service says nothing about the endpoints of another one.
func TestFlowsToEndpointsThatStayAreKeptAfterAnUnknownEffect(t *testing.T) {
	k := &unknownEffect{fake: newFake()}
	ops := newOperations(k)
	ops.resync = func() {}
	round := func(at kernel.Service, endpoints ...netip.AddrPort) error {
		entry := entryOf(at)
		entry[0].Object.Endpoints = endpoints
		ops.ProcessRound(t.Context(), nil, nil, entry)
		return entry[0].Result
	}
	require.NoError(t, round(dns, endpointAt(0), endpointAt(1)))
	require.NoError(t, ops.forget(t.Context()))
	k.flows[dns] = endpointAt(1)
	k.fails = true
	require.ErrorIs(t, round(web, endpointAt(0)), errLost)
	require.NoError(t, round(dns, endpointAt(0), endpointAt(1), endpointAt(2)))
	require.NoError(t, ops.forget(t.Context()))
	require.Equal(t, endpointAt(1), k.flows[dns])
}

// deletedMeanwhile is a fake with a deletion while it is listed.
type deletedMeanwhile struct {
	*unknownEffect
	during func()
}

func (k *deletedMeanwhile) List() (kernel.Listing, error) {
	k.during()
	return k.fake.List()
}

// The comparison leaves out what is deleted during a listing. After a lost answer such a deletion leaves slots, which nothing
// else knows of.
func TestSlotsThatADeletionLeavesDuringAListingAreComparedAgain(t *testing.T) {
	k := &deletedMeanwhile{unknownEffect: &unknownEffect{fake: newFake()}}
	ops := newOperations(k)
	resyncs := 0
	ops.resync = func() { resyncs++ }
	entry := entryOf(web)
	ops.ProcessRound(t.Context(), nil, nil, entry)
	require.NoError(t, entry[0].Result)
	k.fails = true
	lost := entryOf(dns)
	ops.ProcessRound(t.Context(), nil, nil, lost)
	require.ErrorIs(t, lost[0].Result, errLost)
	require.Equal(t, 1, resyncs)
	k.during = func() {
		ops.ProcessRound(t.Context(), nil, entry, nil)
		require.NoError(t, entry[0].Result)
	}
	list := func() (found []*Frontend) {
		require.NoError(t, ops.List(t.Context(), nil, func(f *Frontend) bool {
			found = append(found, f)
			return true
		}))
		return found
	}
	require.Len(t, list(), 1)
	require.Equal(t, 2, resyncs)
	found := list()
	require.Len(t, found, 1)
	entry[0].Object = found[0]
	ops.ProcessRound(t.Context(), nil, entry, nil)
	require.NoError(t, entry[0].Result)
	require.Empty(t, k.slots)
	resyncs = 0
	require.Empty(t, list())
	require.Zero(t, resyncs)
}

// noCommits is a fake kernel that can be listed, and whose commits fail.
type noCommits struct {
	*fake
	fails          atomic.Bool
	tries, listing atomic.Int64 // commits and listings
}

func (k *noCommits) Commit(b *kernel.Batch) error {
	if k.fails.Load() {
		k.tries.Add(1)
		return errLost
	}
	return k.fake.Commit(b)
}

func (k *noCommits) Repair() (wrote bool, err error) {
	k.listing.Add(1) // which begin with that
	return k.fake.Repair()
}

// While commits fail for an hour, listings are few; then all is as wanted.
func TestListingsAreFewWhileCommitsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rows = 100
		k := &noCommits{fake: newFake()}
		p, err := startedProgram(t.Context(), k)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Stop(quiet, context.Background())) }()
		m, gone := message{}, message{}
		for i := range rows {
			at := kernel.Service{Protocol: kernel.UDP, Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 3, byte(i)}), uint16(53+i/256))}
			m.Rows = append(m.Rows, service(fmt.Sprint("s", i), at, 0, 1, 2))
		}
		require.NoError(t, p.write(m))
		time.Sleep(time.Minute)
		require.Len(t, k.list().Counts, rows)
		k.fails.Store(true)
		before := k.listing.Load()
		for i, row := range m.Rows {
			if i%2 == 0 {
				gone.Gone = append(gone.Gone, row.Name)
				require.NoError(t, p.write(message{Gone: []string{row.Name}}))
			} else {
				require.NoError(t, p.write(message{Rows: []*wish{service(row.Name, row.At, 1)}}))
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		listings, tries := k.listing.Load()-before, k.tries.Load()
		t.Logf("%d listings, %d commits that fail", listings, tries)
		k.fails.Store(false)
		time.Sleep(10 * time.Minute)
		require.Len(t, k.list().Counts, rows/2)
		require.Len(t, k.list().Slots, rows/2)
		require.Greater(t, tries, int64(1000))
		require.LessOrEqual(t, listings, int64(10+(time.Hour+rows*time.Second)/time.Minute)+1, "a few at first, then one a minute")
	})
}

// A plan reads the kernel, and the operations know as much as before: nothing is repaired, and nothing is listed again.
func TestPlanTeachesTheOperationsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &noCommits{fake: newFake()}
		p, err := startedProgram(t.Context(), k)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Stop(quiet, context.Background())) }()
		require.NoError(t, p.write(message{Rows: []*wish{service("web", web, 0, 1)}}))
		time.Sleep(time.Minute)
		slot := kernel.Slot{Service: web, Number: 0}
		k.outside(func() { k.slots[slot] = elsewhere })
		before := k.listing.Load()
		plan, err := p.loop.Plan(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, plan.Different)
		require.Contains(t, plan.Differences[0].Diff, elsewhere.String())
		time.Sleep(time.Minute)
		require.Equal(t, elsewhere, k.list().Slots[slot])
		require.Equal(t, before+1, k.listing.Load())
	})
}
