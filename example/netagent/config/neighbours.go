// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
)

// neighbours finds the links by which a host is a neighbour, among prefixes and the links that
// reach them. A search costs as much as there are lengths of prefixes, not prefixes: a file has
// thousands of routes, each with a gateway to look for.
type neighbours struct {
	// offers has the first two links of each place: a third would not change an error.
	offers  map[place][]offer
	lengths map[family][]int // longest first
}

// place is where the links to a host are looked up.
type place struct {
	network netip.Prefix
	table   Table  // whose gateways look here; anyTable for those of all
	dev     string // the one link that counts; "" if each does
}

// anyTable is no table: 0 cannot be asked for.
const anyTable Table = 0

// offer is a link that reaches a network.
type offer struct {
	dev   string
	order int // of the file
}

// family is the number of bits of an address.
type family int

// neighboursOf returns the neighbours by what is offered, in the order of the file: links,
// the networks that they reach, and the tables whose gateways may use that.
func neighboursOf(offered iter.Seq2[string, place]) neighbours {
	n := neighbours{offers: make(map[place][]offer), lengths: make(map[family][]int)}
	lengths := make(map[family]map[int]bool)
	order := 0
	for dev, at := range offered {
		if !at.network.IsValid() {
			continue
		}
		order++
		at.network = at.network.Masked()
		of := family(at.network.Addr().BitLen())
		if lengths[of] == nil {
			lengths[of] = make(map[int]bool)
		}
		if bits := at.network.Bits(); !lengths[of][bits] {
			lengths[of][bits] = true
			n.lengths[of] = append(n.lengths[of], bits)
		}
		for _, at.dev = range []string{"", dev} {
			if has := n.offers[at]; len(has) == 0 || len(has) == 1 && has[0].dev != dev {
				n.offers[at] = append(has, offer{dev, order})
			}
		}
	}
	for _, bits := range n.lengths {
		slices.SortFunc(bits, func(a, b int) int { return cmp.Compare(b, a) })
	}
	return n
}

// of returns what reaches a host for gateways of a table, by one link or, if dev is empty, by
// each, with the longest prefixes first: in each step the offers of one length.
func (n neighbours) of(host netip.Addr, dev string, table Table) iter.Seq[[]offer] {
	return func(yield func([]offer) bool) {
		for _, bits := range n.lengths[family(host.BitLen())] {
			network, err := host.Prefix(bits)
			if err != nil {
				return // not an address
			}
			offers := slices.Concat(n.offers[place{network, anyTable, dev}], n.offers[place{network, table, dev}])
			slices.SortFunc(offers, func(a, b offer) int { return cmp.Compare(a.order, b.order) })
			if !yield(offers) {
				return
			}
		}
	}
}
