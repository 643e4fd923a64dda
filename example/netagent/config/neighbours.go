// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
)

// neighbours finds the links by which a host is a neighbour, from prefixes and the links that reach them. A
// search costs one look-up for each prefix length, not for each prefix: a file has thousands of routes, each
// with a gateway to find.
type neighbours struct {
	// offers has the first two links of each place: a third would not change an error.
	offers  map[place][]offer
	lengths map[family][]int // longest first
}

// place is the key under which the links to a host are found.
type place struct {
	network netip.Prefix
	table   Table  // whose gateways use it; anyTable for all tables
	dev     string // the only link that counts; "" for all links
}

// anyTable is the table of no route: a state cannot have table 0.
const anyTable Table = 0

// offer is a link that reaches a network.
type offer struct {
	dev   string
	order int // in the file
}

// family is the number of bits of an address.
type family int

// neighboursOf returns the neighbours for a list of offers in the order of the file: links, the networks
// that they reach, and the tables whose gateways may use them.
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

// of yields the offers for a host and the gateways of a table, by one link or, if dev is empty, by all
// links. Each step has the offers of one prefix length, the longest first.
func (n neighbours) of(host netip.Addr, dev string, table Table) iter.Seq[[]offer] {
	return func(yield func([]offer) bool) {
		for _, bits := range n.lengths[family(host.BitLen())] {
			network, err := host.Prefix(bits)
			if err != nil {
				return // not a valid address
			}
			offers := slices.Concat(n.offers[place{network, anyTable, dev}], n.offers[place{network, table, dev}])
			slices.SortFunc(offers, func(a, b offer) int { return cmp.Compare(a.order, b.order) })
			if !yield(offers) {
				return
			}
		}
	}
}
