// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"net/netip"
	"testing"

	"github.com/cilium/statedb"
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
			require.Empty(t, ops.stale)
		}
		ops.ProcessRound(t.Context(), nil, entry, nil)
		require.NoError(t, entry[0].Result)
	}
	require.Empty(t, ops.stale)
	require.Empty(t, ops.have)
}

// A search takes long, and so the first services have one for all of them, with the listing that follows.
func TestFlowsThatWereNotTranslatedEnd(t *testing.T) {
	f := newFake()
	ops, complete := newOperations(process{f, t.Context()}), false
	ops.initialized = func(statedb.ReadTxn) bool { return complete }
	list := func() { require.NoError(t, ops.List(t.Context(), nil, func(*Frontend) bool { return true })) }
	apply := func(at kernel.Service) {
		f.flows[at] = at.Address
		entry := entryOf(at)
		ops.ProcessRound(t.Context(), nil, nil, entry)
		require.NoError(t, entry[0].Result)
	}
	list()
	apply(dns)
	require.Equal(t, dns.Address, f.flows[dns], "the first listing was of nothing")
	complete = true
	list()
	require.Equal(t, endpointAt(0), f.flows[dns])

	apply(orphan)
	require.Equal(t, endpointAt(0), f.flows[orphan], "nothing follows")
}

// What is applied is found again by a listing: otherwise each one would write it again.
func TestAsManyEndpointsAsAreListed(t *testing.T) {
	for _, n := range []int{maxSlots, maxSlots + 1} {
		f := newFake()
		ops := newOperations(f)
		entry := entryOf(web)
		entry[0].Object.Endpoints = make([]netip.AddrPort, n)
		for i := range n {
			entry[0].Object.Endpoints[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80)
		}
		ops.ProcessRound(t.Context(), nil, nil, entry)
		if n > maxSlots {
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

// A process is killed between the commit that deletes a service and the deletion of its flows. No other one knows them, so
// they end when the service is there again.
func TestFlowsOfAServiceThatIsThereAgainEnd(t *testing.T) {
	f := newFake()
	ops := newOperations(f)
	entry := entryOf(dns)
	ops.ProcessRound(t.Context(), nil, nil, entry)
	require.NoError(t, entry[0].Result)
	require.Equal(t, endpointAt(0), f.flows[dns])
	b := kernel.NewBatch()
	b.DeleteSlot(kernel.Slot{Service: dns})
	b.DeleteService(dns)
	require.NoError(t, f.Commit(b))

	ops = newOperations(f)
	require.NoError(t, ops.List(t.Context(), nil, func(*Frontend) bool { return true }))
	entry[0].Object.Endpoints = []netip.AddrPort{endpointAt(1)}
	ops.ProcessRound(t.Context(), nil, nil, entry)
	require.NoError(t, entry[0].Result)
	require.Equal(t, endpointAt(1), f.flows[dns])
}
