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
	// offers has two links of each place: a third would not change an error.
	offers  map[place][]string
	lengths map[int][]int // by the number of bits of an address; the longest first

	looked int // number of places that were examined
}

// place is the key under which the links to a host are found.
type place struct {
	network netip.Prefix
	table   Table  // whose gateways use it; anyTable for all tables
	dev     string // the only link that counts; "" for all links
}

// anyTable is the table of no route: a state cannot have table 0.
const anyTable Table = 0

// neighboursOf returns the neighbours for a list of offers: links, the networks that they reach, and the tables
// whose gateways may use them.
func neighboursOf(offered iter.Seq2[string, place]) neighbours {
	n := neighbours{offers: make(map[place][]string), lengths: make(map[int][]int)}
	for dev, at := range offered {
		if !at.network.IsValid() {
			continue
		}
		at.network = at.network.Masked()
		family := at.network.Addr().BitLen()
		if bits := at.network.Bits(); !slices.Contains(n.lengths[family], bits) {
			n.lengths[family] = append(n.lengths[family], bits)
		}
		for _, at.dev = range []string{"", dev} {
			n.offers[at] = with(n.offers[at], dev)
		}
	}
	for _, bits := range n.lengths {
		slices.SortFunc(bits, func(a, b int) int { return cmp.Compare(b, a) })
	}
	return n
}

// with returns at most two links, without a repetition.
func with(devs []string, more ...string) []string {
	for _, dev := range more {
		if len(devs) < 2 && !slices.Contains(devs, dev) {
			devs = append(devs[:len(devs):len(devs)], dev)
		}
	}
	return devs
}

// reach returns the links by which a host is a neighbour for a route in the given table: those with the longest
// matching prefix, at most two. If dev is not empty only that link counts.
func (n *neighbours) reach(host netip.Addr, dev string, table Table) []string {
	for _, bits := range n.lengths[host.BitLen()] {
		network, err := host.Prefix(bits)
		if err != nil {
			return nil // not a valid address
		}
		n.looked++
		if devs := with(n.offers[place{network, anyTable, dev}], n.offers[place{network, table, dev}]...); len(devs) > 0 {
			return devs
		}
	}
	return nil
}
