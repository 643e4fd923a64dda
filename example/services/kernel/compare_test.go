// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"testing"

	"github.com/google/nftables/expr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/internal/nettest"
)

// What has the right name may be something else all the same.
func TestListingRestoresWhatOthersChange(t *testing.T) {
	const rule = `meta l4proto . ip daddr . th dport`
	for name, script := range map[string]string{
		"a dormant table":         `add table ip services { flags dormant; }`,
		"a policy":                `add chain ip services reject-forward { policy drop; }`,
		"a rule of others":        `insert rule ip services prerouting accept`,
		"rules of others only":    `flush table ip services; add rule ip services prerouting drop`,
		"a rule in our name":      `flush chain ip services prerouting; add rule ip services prerouting ` + rule + ` vmap @services accept comment "statekeel 1: to as many endpoints as it has"`,
		"another place":           `flush chain ip services reject-input; delete chain ip services reject-input; add chain ip services reject-input { type filter hook input priority 5; }`,
		"another hook and type":   `flush chain ip services output; delete chain ip services output; add chain ip services output { type filter hook input priority 0; policy drop; }`,
		"a chain without a hook":  `flush chain ip services postrouting; delete chain ip services postrouting; add chain ip services postrouting`,
		"rules of a draw":         `flush chain ip services draw-2; add rule ip services draw-2 drop`,
		"a draw is deleted":       `flush map ip services services; delete chain ip services draw-2`,
		"a draw with a hook":      `flush map ip services services; delete chain ip services draw-2; add chain ip services draw-2 { type filter hook output priority 3; policy drop; }`,
		"a set of another type":   `flush table ip services; delete set ip services empty; add set ip services empty { type ipv4_addr; }`,
		"a set with a timeout":    `flush table ip services; delete set ip services empty; add set ip services empty { type inet_proto . ipv4_addr . inet_service; timeout 1d; }; add rule ip services reject-input ` + rule + ` @empty drop`,
		"a set with a size":       `flush table ip services; delete map ip services endpoints; add map ip services endpoints { type inet_proto . ipv4_addr . inet_service . mark : ipv4_addr . inet_service; size 9; }`,
		"a set with a limit":      `flush table ip services; delete set ip services empty; add set ip services empty { type inet_proto . ipv4_addr . inet_service; limit rate 1/day; }`,
		"a set in place of a map": `flush table ip services; delete map ip services services; add set ip services services { type inet_proto . ipv4_addr . inet_service; }`,
		"a map with intervals":    `flush table ip services; delete map ip services services; add map ip services services { type inet_proto . ipv4_addr . inet_service : verdict; flags interval; }`,
		"a constant set":          `flush table ip services; delete set ip services empty; add set ip services empty { type ipv4_addr; flags constant; elements = { 1.2.3.4 }; }`,
		"elements that end":       `flush table ip services; delete map ip services endpoints; add map ip services endpoints { type mark : ipv4_addr; timeout 1ms; }; add element ip services endpoints { 1 : 1.2.3.4 }`,
		"a flushed set":           `flush set ip services same`,
		"another pair":            `delete element ip services same { 15.0.0.0 . 15.0.0.0 }; add element ip services same { 15.0.0.0 . 14.0.0.0 }`,
		"a verdict":               `delete element ip services services { tcp . 10.96.0.1 . 80 }; add element ip services services { tcp . 10.96.0.1 . 80 : drop }`,
		"a jump":                  `delete element ip services services { tcp . 10.96.0.1 . 80 }; add element ip services services { tcp . 10.96.0.1 . 80 : jump draw-2 }`,
		"an endpoint":             `delete element ip services endpoints { tcp . 10.96.0.1 . 80 . 0 }; add element ip services endpoints { tcp . 10.96.0.1 . 80 . 0 : 10.2.0.99 . 80 }`,
		"a slot too many":         `add element ip services endpoints { tcp . 10.96.0.1 . 80 . 7 : 10.2.0.99 . 80 }`,
		"a slot far away":         `add element ip services endpoints { tcp . 10.96.0.1 . 80 . 0xffffffff : 10.2.0.99 . 80 }`,
		"a service in both":       `add element ip services empty { tcp . 10.96.0.1 . 80 }`,
		"an empty one in both":    `add element ip services services { tcp . 10.96.0.9 . 80 : drop }`,
		"a service of others":     `add element ip services services { sctp . 10.96.0.7 . 80 : goto draw-2 }`,
		"all other services":      `add element ip services services { * : drop }`,
		"all others rejected":     `add element ip services empty { * }`,
		"a table of others":       `delete table ip services; add table ip services; add chain ip services output { type filter hook output priority 0; policy drop; }; add set ip services same { type mark; }`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			table := openIn(t, p)
			b := NewBatch()
			want := state(b)
			require.NoError(t, table.Commit(b))
			before := p.Ruleset()
			require.NoError(t, p.Nft(script))
			require.NotEqual(t, before, p.Ruleset())

			require.NoError(t, table.Commit(difference(list(t, table), want)))
			requireRuleset(t, before, p)
			generation := p.Generation()
			assert.Equal(t, want, list(t, table))
			assert.Equal(t, generation, p.Generation(), "an equal table gets no write")
		})
	}
}

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
	m := b.encode(table.table.Name)
	limit, err := expr.Marshal(unix.NFPROTO_IPV4, &expr.Limit{Type: expr.LimitTypePkts, Rate: 1, Unit: expr.LimitTimeDay, Burst: 5})
	require.NoError(t, err)
	limited := func(set string, key, data func()) {
		elements(m, table.table.Name, set, messageDestroyElements, map[int]bool{0: true}, always, func(int, bool) { key() })
		elements(m, table.table.Name, set, unix.NFT_MSG_NEWSETELEM, map[int]bool{0: true}, always, func(int, bool) {
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
