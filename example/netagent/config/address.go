// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"net/netip"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Address is an IP address of a link, with the prefix length of the network. Addresses can be compared with
// ==.
type Address struct {
	Dev  string       `json:"dev" yaml:"dev"`
	CIDR netip.Prefix `json:"cidr" yaml:"cidr"`
}

// Key returns "dev/ip/length", which is unique.
func (a Address) Key() string { return a.Dev + "/" + a.CIDR.String() }

// Needs returns the name of the address's link.
func (a Address) Needs() string { return a.Dev }

// Reaches reports whether a host is a neighbour on the address's link.
func (a Address) Reaches(host netip.Addr) bool { return a.CIDR.Contains(host) }

func (r *reader) address(n *yaml.Node) (Located[Address], bool) {
	var address Address
	at := r.mapping("address", n, map[string]func(*yaml.Node){
		"dev":  func(n *yaml.Node) { address.Dev = r.linkName(n) },
		"cidr": func(n *yaml.Node) { address.CIDR = r.cidr(n) },
	})
	r.incomplete("address", n, at, "dev", "cidr")
	return Located[Address]{address, r.pos(n), at}, address.Dev != "" && address.CIDR.IsValid()
}

// cidr reads an address and its prefix length, such as 10.0.0.1/24.
func (r *reader) cidr(n *yaml.Node) netip.Prefix {
	value := r.text("cidr", n)
	prefix, err := netip.ParsePrefix(value)
	switch ip := prefix.Addr(); {
	case err != nil:
		r.addf(n, "cidr %q: an address and the length of its prefix are needed, such as 10.0.0.1/24", value)
	case ip.Is4In6():
		r.addf(n, "cidr %q: an IPv4 address in IPv6 clothing; write %s", value, ip.Unmap())
	case ip.IsUnspecified() || ip.IsMulticast():
		r.addf(n, "cidr %q is not the address of one host", value)
	case prefix.Bits() == 0:
		r.addf(n, "cidr %q: a prefix of length 0 would put every address on this link", value)
	default:
		return prefix
	}
	return netip.Prefix{}
}

// parseIP parses an address that has no zone and is not mapped from IPv4.
func parseIP(value string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(value)
	return ip, err == nil && !strings.Contains(value, "%") && !ip.Is4In6()
}
