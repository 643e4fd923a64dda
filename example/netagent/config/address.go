// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"errors"
	"fmt"
	"net/netip"

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

func readAddress(n *yaml.Node) (a Address, err error) {
	if err = decode(n, "address", &a); err != nil {
		return a, err
	}
	if a.Dev == "" {
		return a, errors.New("address: dev is missing")
	}
	if err = checkLinkName(a.Dev); err != nil {
		return a, fmt.Errorf("address: dev: %w", err)
	}
	switch ip := a.CIDR.Addr(); {
	case !ip.IsValid():
		err = fmt.Errorf("address of link %q: cidr is missing, such as 10.0.0.1/24", a.Dev)
	case ip.Is4In6():
		err = fmt.Errorf("cidr %q: an IPv4 address in IPv6 clothing; write %s", a.CIDR, ip.Unmap())
	case ip.IsUnspecified() || ip.IsMulticast():
		err = fmt.Errorf("cidr %q is not the address of one host", a.CIDR)
	case a.CIDR.Bits() == 0:
		err = fmt.Errorf("cidr %q: a prefix of length 0 would put every address on this link", a.CIDR)
	}
	return a, err
}
