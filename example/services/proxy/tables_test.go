// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestTheOldestServiceHasTheAddress(t *testing.T) {
	db := statedb.New()
	services, err := NewServices(db)
	require.NoError(t, err)
	frontends, err := NewFrontends(db)
	require.NoError(t, err)
	d, err := Derive(derive.Config[*Frontend]{DB: db}, services, frontends)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	reconcilertest.Go(t, d.Run)

	winner := func(change func(txn statedb.WriteTxn)) string {
		txn := db.WriteTxn(services)
		change(txn)
		txn.Commit()
		_, err := d.WaitAll(t.Context(), reconciler.Applied)
		require.NoError(t, err)
		f, _, found := frontends.Get(db.ReadTxn(), ByAddress(web))
		require.True(t, found)
		return f.Name
	}
	names := []string{"zero", "hastings", "epoch", "today-a", "today-b", "far"}
	created := []time.Time{
		{}, time.Date(1066, 10, 14, 0, 0, 0, 0, time.UTC), time.Unix(0, 0), time.Unix(1<<31, 0), time.Unix(1<<31, 0),
		time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for i := len(names) - 1; i >= 0; i-- {
		s := service(names[i], web, i)
		s.Created = created[i]
		require.Equal(t, names[i], winner(func(txn statedb.WriteTxn) { _, _, _ = services.Insert(txn, s) }))
	}
	for i, name := range names[:len(names)-1] {
		gone := func(txn statedb.WriteTxn) { _, _, _ = services.Delete(txn, &Service{Name: name}) }
		require.Equal(t, names[i+1], winner(gone))
	}
}

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
