// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler"
)

// An endpoint that stays has its slot still, except one that moves to a slot that is free; slots have no gaps.
func TestPlaceMovesAsLittleAsItCan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		endpoint := func(i int) netip.AddrPort {
			if i == 0 {
				return netip.AddrPort{} // a gap, as a listing may find it
			}
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)
		}
		var have, wanted []netip.AddrPort
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, 12), 0, 12).Draw(t, "have") {
			have = append(have, endpoint(i))
		}
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 0, 12, rapid.ID).Draw(t, "wanted") {
			wanted = append(wanted, endpoint(i))
		}
		slices.SortFunc(wanted, netip.AddrPort.Compare)
		placed := place(have, wanted)
		sorted := slices.SortedFunc(slices.Values(placed), netip.AddrPort.Compare)
		if len(wanted) == 0 {
			require.Empty(t, placed)
			return
		}
		require.Equal(t, wanted, sorted)
		for i, e := range have {
			if i < len(placed) && slices.Contains(wanted, e) && slices.Index(have, e) == i {
				require.Equal(t, e, placed[i], "the endpoint of slot %d stays", i)
			}
		}
	})
}

// A transaction of 50,000 elements takes the kernel 80 ms, in which it does nothing else for nftables.
func TestALargeRoundIsSeveralTransactions(t *testing.T) {
	k := &unknownEffect{fake: newFake()}
	ops := newOperations(k)
	ops.resync = func() {}
	var round []reconciler.BatchEntry[*Frontend]
	for i := range 1000 {
		at := kernel.Service{Protocol: kernel.TCP, Address: netip.AddrPortFrom(web.Address.Addr(), uint16(1+i))}
		f := &Frontend{At: at}
		for n := range 8 {
			f.Endpoints = append(f.Endpoints, endpointAt(n))
		}
		round = append(round, reconciler.BatchEntry[*Frontend]{Object: f})
	}
	ops.ProcessRound(t.Context(), nil, nil, round)
	for i := range round {
		require.NoError(t, round[i].Result)
	}
	require.Equal(t, 1000*(8+2)/perCommit, k.commits)
	require.Len(t, k.slots, 8*1000)

	k.fails = true
	ops.ProcessRound(t.Context(), nil, round, nil)
	for i := range round {
		require.ErrorIs(t, round[i].Result, errLost, "the target may be down: the rest is not tried")
	}
	require.Equal(t, 1000*(8+2)/perCommit, k.commits)
}

// The row may be changed before the loop looks at what the other program has done, and then it does not look.
func TestWhatOthersHaveChangedIsRestoredByTheNextChange(t *testing.T) {
	k := newFake()
	ops := newOperations(k)
	ops.resync = func() {}
	f := &Frontend{At: web, Endpoints: []netip.AddrPort{endpointAt(0), endpointAt(1)}}
	apply := func(f *Frontend) {
		round := []reconciler.BatchEntry[*Frontend]{{Object: f}}
		ops.ProcessRound(t.Context(), nil, nil, round)
		require.NoError(t, round[0].Result)
	}
	apply(f)
	k.outside(func() { delete(k.slots, kernel.Slot{Service: web, Number: 1}) })
	ops.doubt(web)
	apply(&Frontend{At: web, Endpoints: append(slices.Clone(f.Endpoints), endpointAt(2))})
	require.Len(t, k.slots, 3)

	k.outside(func() { k.slots[kernel.Slot{Service: web, Number: 0}] = elsewhere })
	ops.doubt(web)
	round := []reconciler.BatchEntry[*Frontend]{{Object: f}}
	ops.ProcessRound(t.Context(), nil, round, nil)
	require.NoError(t, round[0].Result)
	require.Empty(t, k.slots)
}
