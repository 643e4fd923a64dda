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
