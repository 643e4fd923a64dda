// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"testing"

	"github.com/google/nftables/expr"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/nettest"
)

func requireRuleset(t *testing.T, want []nettest.Object, p place) {
	t.Helper()
	missing, added := nettest.Changes(want, p.Ruleset())
	require.Empty(t, missing, "missing")
	require.Empty(t, added, "added")
}

// difference returns what a reconciler writes.
func difference(have, want Listing) *Batch {
	b := NewBatch()
	for slot, endpoint := range have.Slots {
		if wanted, is := want.Slots[slot]; !is {
			b.DeleteSlot(slot)
		} else if wanted != endpoint {
			b.SetSlot(slot, wanted)
		}
	}
	for service, n := range have.Counts {
		if wanted, is := want.Counts[service]; !is {
			b.DeleteService(service)
		} else if wanted != n {
			b.SetCount(service, wanted)
		}
	}
	for slot, endpoint := range want.Slots {
		if _, is := have.Slots[slot]; !is {
			b.SetSlot(slot, endpoint)
		}
	}
	for service, n := range want.Counts {
		if _, is := have.Counts[service]; !is {
			b.SetCount(service, n)
		}
	}
	return b
}

// The program nft writes no such elements, and the kernel prints what they let through as a part of them.
func TestElementsWithALimitAreWrittenAgain(t *testing.T) {
	p := newPlace(t)
	table := openIn(t, p)
	b := NewBatch()
	want := state(b)
	require.NoError(t, table.Commit(b))
	before := p.Ruleset()

	state(b)
	m, four := b.encode("services"), table.tables[0]
	limit, err := expr.Marshal(unix.NFPROTO_IPV4, &expr.Limit{Type: expr.LimitTypePkts, Rate: 1, Unit: expr.LimitTimeDay, Burst: 5})
	require.NoError(t, err)
	limited := func(set string, key, data func()) {
		m.element(four, set, messageDestroyElements, key)
		m.element(four, set, unix.NFT_MSG_NEWSETELEM, func() {
			key()
			data()
			e := m.nest(unix.NFTA_SET_ELEM_EXPR)
			m.buf = append(m.buf, limit...)
			m.close(e)
		})
	}
	limited(endpointsMap, func() { m.key(web, 0) }, func() { m.endpoint(endpointAt(0)) })
	limited(servicesMap, func() { m.key(web, -1) }, func() { m.gotoChain(drawName(2)) })
	limited(emptySet, func() { m.key(numberedService(9), -1) }, func() {})
	require.NoError(t, table.commit(m))
	require.NotEqual(t, before, p.Ruleset())
	require.NoError(t, table.Commit(difference(list(t, table), want)))
	requireRuleset(t, before, p)
}
