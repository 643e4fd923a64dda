// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/statedb"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
)

// addresses adds addresses to links and removes them.
type addresses struct{ surroundings }

// Update adds the address if the link does not have it. It first removes the same IP with another prefix
// length: for IPv6 the kernel treats that as the same address.
func (a *addresses) Update(_ context.Context, txn statedb.ReadTxn, _ statedb.Revision, row *desired.Address) error {
	want := row.Spec
	link, err := a.needLink(txn, want.Dev)
	if err != nil {
		return err
	}
	changed, err := put(want, handle(link))
	if changed {
		a.Undid(want.Dev, desired.UndidRoutes)
	}
	if err != nil {
		return a.failedOn(txn, link, err)
	}
	if changed {
		repaired(a.surroundings, txn, a.Tables.Loops.Addresses, "address", row)
	}
	return nil
}

// put adds an address to a link, and reports whether that changed anything.
func put(want config.Address, link netlink.Link) (changed bool, err error) {
	have, err := addressesOf(link)
	if err != nil {
		return false, err
	}
	for _, addr := range have {
		prefix := prefixOf(addr.IPNet)
		if prefix == want.CIDR {
			return false, nil
		}
		if prefix.Addr() == want.CIDR.Addr() {
			if err := deleteAddress(link, addr); err != nil {
				return changed, err
			}
			changed = true
		}
	}
	addr := netlink.Addr{IPNet: ipNet(want.CIDR)}
	if want.CIDR.Addr().Is6() {
		// This namespace has no other user who could have taken the address, and on a bridge without a
		// carrier it would stay tentative for ever.
		addr.Flags = unix.IFA_F_NODAD
	}
	if err := wrote("address", netlink.AddrAdd(link, &addr)); err != nil && !errors.Is(err, unix.EEXIST) {
		return changed, fmt.Errorf("add address %q: %w", want.Key(), err)
	}
	return true, nil
}

// Delete removes the address from its link. The kernel may also remove the secondary addresses of the same
// network.
func (a *addresses) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, row *desired.Address) error {
	link, err := findLink(row.Spec.Dev)
	if err != nil || link == nil {
		return err
	}
	have, err := addressesOf(link)
	if err != nil {
		return err
	}
	for _, addr := range have {
		if prefixOf(addr.IPNet) != row.Spec.CIDR {
			continue
		}
		a.Undid(row.Spec.Dev, desired.UndidAddresses|desired.UndidRoutes)
		return removed(a.surroundings, "address", row, deleteAddress(link, addr))
	}
	return nil
}

// List lists the addresses of all links, except the kernel's own that have no row.
func (a *addresses) List(ctx context.Context, _ statedb.ReadTxn, yield func(*desired.Address) bool) error {
	txn, _, names, err := a.look(ctx)
	if err != nil {
		return err
	}
	addrs, err := dump("addresses", func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return err
	}
	for _, addr := range addrs {
		found := config.Address{Dev: names[addr.LinkIndex], CIDR: prefixOf(addr.IPNet)}
		_, _, asked := a.Tables.Addresses.Get(txn, desired.ByKey[config.Address](found.Key()))
		if found.Dev == "" || !asked && madeByKernel(addr.LinkIndex, found.CIDR) {
			continue // the link is newer than the list of links, or the address is not ours
		}
		if !yield(&desired.Address{Spec: found}) {
			break
		}
	}
	return nil
}

// madeByKernel reports whether the kernel itself adds this address to a link: every link that is up has an
// IPv6 link-local address, and lo has 127.0.0.1 and ::1.
func madeByKernel(link int, prefix netip.Prefix) bool {
	if link == loopbackIndex {
		return prefix == netip.MustParsePrefix("127.0.0.1/8") || prefix == netip.MustParsePrefix("::1/128")
	}
	return prefix.Addr().Is6() && prefix.Addr().IsLinkLocalUnicast()
}

func addressesOf(link netlink.Link) ([]netlink.Addr, error) {
	return dump(fmt.Sprintf("addresses of link %q", link.Attrs().Name), func() ([]netlink.Addr, error) {
		return netlink.AddrList(link, netlink.FAMILY_ALL)
	})
}

func deleteAddress(link netlink.Link, addr netlink.Addr) error {
	err := wrote("address", netlink.AddrDel(link, &addr))
	if err == nil || errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return fmt.Errorf("delete address %s of link %q: %w", addr.IPNet, link.Attrs().Name, err)
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	ip := prefix.Addr()
	return &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(prefix.Bits(), ip.BitLen())}
}

// prefixOf is the inverse of ipNet; it returns the zero Prefix for nil.
func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	ip, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(ip.Unmap(), bits)
}
