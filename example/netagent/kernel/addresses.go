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
	"slices"
	"strings"

	"github.com/cilium/statedb"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/observed"
)

// addresses adds addresses to links and removes them.
type addresses struct{ surroundings }

// Update adds the address if the link does not have it, and removes the same IP with another prefix length, peer or
// the like: for IPv6 the kernel treats that as the same address.
func (a *addresses) Update(_ context.Context, txn statedb.ReadTxn, _ statedb.Revision, row *desired.Address) error {
	want := row.Spec
	link, err := a.needLink(txn, want.Dev)
	if err != nil {
		return err
	}
	undid, err := put(want, link)
	if undid != 0 {
		a.Undid(want.Dev, undid)
	}
	if err != nil {
		return a.failedOn(txn, link, err)
	}
	if undid != 0 {
		repaired(a.surroundings, txn, a.Tables.Loops.Addresses, "address", row)
	}
	return nil
}

// put makes the link have the IP of the wanted address exactly once, as wanted, and returns what that may have undone:
// nothing if the kernel has it so.
func put(want config.Address, on *observed.Link) (undid desired.Effect, err error) {
	link := handle(on)
	add := func(set func(netlink.Link, *netlink.Addr) error) error {
		addr := netlink.Addr{IPNet: ipNet(want.CIDR)}
		if want.CIDR.Addr().Is6() {
			// This namespace has no other user who could have taken the address, and on a bridge without a
			// carrier it would stay tentative for ever.
			addr.Flags = unix.IFA_F_NODAD
		}
		undid |= desired.UndidRoutes
		if err := wrote("address", set(link, &addr)); err != nil {
			return fmt.Errorf("add address %q: %w", want.Key(), err)
		}
		return nil
	}
	have, err := addressesOf(on.Index, want.CIDR.Addr())
	if err != nil || isOnly(have, want) {
		return undid, err
	}
	// The kernel changes some properties in place, such as a lifetime, and the address is never missing.
	if slices.ContainsFunc(have, func(addr address) bool { return addr.cidr == want.CIDR }) {
		if err := add(netlink.AddrReplace); err != nil {
			return undid, err
		}
		if have, err = addressesOf(on.Index, want.CIDR.Addr()); err != nil || isOnly(have, want) {
			return undid, err
		}
	}
	for _, addr := range have {
		if addr.is(want) {
			continue
		}
		undid |= desired.UndidAddresses | desired.UndidRoutes // the kernel may remove the secondary ones with it
		if err := addr.delete(); err != nil {
			return undid, err
		}
	}
	if have, err = addressesOf(on.Index, want.CIDR.Addr()); err == nil && len(have) == 0 {
		if err = add(netlink.AddrAdd); err == nil {
			have, err = addressesOf(on.Index, want.CIDR.Addr())
		}
	}
	if err == nil && !isOnly(have, want) {
		err = fmt.Errorf("address %q: another program changes it, or the kernel made it another: %v", want.Key(), have)
	}
	return undid, err
}

// Delete removes the address from its link. The kernel may also remove the secondary addresses of the same
// network.
func (a *addresses) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, row *desired.Address) error {
	link, err := findLink(row.Spec.Dev)
	if err != nil || link == nil {
		return err
	}
	// left returns what is to be deleted: of what was listed, not what the kernel itself has made since.
	left := func() ([]address, error) {
		have, err := addressesOf(link.Attrs().Index, row.Spec.CIDR.Addr())
		return slices.DeleteFunc(have, func(addr address) bool {
			return addr.cidr != row.Spec.CIDR || row.Source == "" && addr.kernels
		}), err
	}
	have, err := left()
	if err != nil || len(have) == 0 {
		return err
	}
	defer a.Undid(row.Spec.Dev, desired.UndidAddresses|desired.UndidRoutes)
	for _, addr := range have {
		if err := removed(a.surroundings, "address", row, addr.delete()); err != nil {
			return err
		}
	}
	if have, err = left(); err == nil && len(have) > 0 {
		err = fmt.Errorf("address %q is still there after it was deleted: %v", row.Spec.Key(), have)
	}
	return err
}

// List lists the addresses of all links, except the kernel's own that have no row.
func (a *addresses) List(ctx context.Context, _ statedb.ReadTxn, yield func(*desired.Address) bool) error {
	txn, _, names, err := a.look(ctx)
	if err != nil {
		return err
	}
	all, err := addressMessages.list()
	if err != nil {
		return err
	}
	for _, o := range all {
		addr := readAddress(o)
		found := config.Address{Dev: names[addr.link], CIDR: addr.cidr}
		_, _, asked := a.Tables.Addresses.Get(txn, desired.ByKey[config.Address](found.Key()))
		if found.Dev == "" || !asked && addr.kernels {
			continue // the link is newer than the list of links, or the address is not ours
		}
		if !yield(&desired.Address{Spec: found, Extra: strings.Join(addr.extra, ", ")}) {
			break
		}
	}
	return nil
}

// Get gets an address as List lists it.
func (a *addresses) Get(
	_ context.Context, _ statedb.ReadTxn, wanted *desired.Address,
) (found *desired.Address, ok bool, err error) {
	link, err := findLink(wanted.Spec.Dev)
	if err != nil || link == nil {
		return nil, false, err
	}
	have, err := addressesOf(link.Attrs().Index, wanted.Spec.CIDR.Addr())
	for _, addr := range have {
		if addr.cidr == wanted.Spec.CIDR && (wanted.Source != "" || !addr.kernels) && (found == nil || len(addr.extra) > 0) {
			found = &desired.Address{Spec: wanted.Spec, Extra: strings.Join(addr.extra, ", ")}
		}
	}
	return found, found != nil, err
}

// address is an address in the kernel.
type address struct {
	object
	link int
	cidr netip.Prefix

	// kernels reports whether the kernel itself made it.
	kernels bool

	// extra describes what put would not make so.
	extra []string
}

// is reports whether it is the wanted address, of its link, and as put makes it.
func (a address) is(want config.Address) bool { return a.cidr == want.CIDR && len(a.extra) == 0 }

// String describes an address.
func (a address) String() string {
	return strings.Join(append([]string{a.cidr.String()}, a.extra...), ", ")
}

func isOnly(have []address, want config.Address) bool { return len(have) == 1 && have[0].is(want) }

// ifaProto is the attribute with the origin of an address, which the kernel reports since Linux 5.18. The origins
// from 1 to 3 are the kernel itself: for the loopback, by a router advertisement, and for every link.
const (
	ifaProto     = 11
	maxKernels   = 3
	infiniteLife = 1<<32 - 1
)

var addressMessages = messages{
	what: "addresses", fresh: unix.RTM_NEWADDR, del: unix.RTM_DELADDR, get: unix.RTM_GETADDR,
	header: func(family uint8) nl.NetlinkRequestData { return nl.NewIfAddrmsg(int(family)) },
	names: map[uint16]string{
		unix.IFA_ADDRESS: "a peer", unix.IFA_BROADCAST: "another broadcast address", unix.IFA_CACHEINFO: "a lifetime",
		unix.IFA_FLAGS: "other flags", unix.IFA_RT_PRIORITY: "a metric", ifaProto: "an origin",
	},
}

func readAddress(o object) address {
	header := nl.DeserializeIfAddrmsg(o.header)
	ip, remote := o.ip(unix.IFA_LOCAL), o.ip(unix.IFA_ADDRESS)
	if !ip.IsValid() {
		ip = remote // as for most of IPv6
	}
	a := address{object: o, link: int(header.Index), cidr: netip.PrefixFrom(ip, int(header.Prefixlen))}
	flags := o.number(unix.IFA_FLAGS)
	a.kernels = madeByKernel(a, flags)
	loopbacks := a.link == loopbackIndex && a.kernels
	a.extra = addressMessages.extra(o, func(kind uint16, value []byte) bool {
		switch kind {
		case unix.IFA_ADDRESS:
			return remote == ip
		case unix.IFA_BROADCAST: // the kernel has this one anyway
			return remote == ip && slices.Equal(value, broadcastOf(a.cidr))
		case unix.IFA_CACHEINFO:
			life := nl.DeserializeIfaCacheInfo(value)
			return life.Prefered == infiniteLife && life.Valid == infiniteLife
		case unix.IFA_FLAGS:
			switch {
			case ip.Is4():
				flags &^= unix.IFA_F_SECONDARY // the kernel decides that
			case !loopbacks:
				return flags == unix.IFA_F_PERMANENT|unix.IFA_F_NODAD
			}
			return flags == unix.IFA_F_PERMANENT
		}
		return o.number(kind) == 0 || loopbacks
	})
	if ip.Is4() && header.Scope != unix.RT_SCOPE_UNIVERSE && !loopbacks {
		a.extra = append(a.extra, "a scope")
	}
	return a
}

// madeByKernel reports whether the kernel itself made an address: the kernel says so, or it is one that older kernels,
// which do not say it, make for the loopback, for every link that is up, for IPv4 tunnels, and by a router
// advertisement. What another program made like one of these stays too: without the kernel's own, a link has no IPv6.
func madeByKernel(a address, flags uint32) bool {
	ip := a.cidr.Addr()
	if origin := a.number(ifaProto); origin != 0 {
		return origin <= maxKernels
	}
	if ip.Is4() {
		return a.link == loopbackIndex && a.cidr == netip.MustParsePrefix("127.0.0.1/8")
	}
	advertised := flags&unix.IFA_F_MANAGETEMPADDR != 0 && flags&unix.IFA_F_PERMANENT == 0
	return advertised || flags&(unix.IFA_F_TEMPORARY|unix.IFA_F_STABLE_PRIVACY) != 0 ||
		ip.IsLinkLocalUnicast() || netip.MustParsePrefix("::/96").Contains(ip)
}

// broadcastOf returns the last address of an IPv4 network.
func broadcastOf(cidr netip.Prefix) []byte {
	last := cidr.Addr().AsSlice()
	for i := cidr.Bits(); i < 8*len(last); i++ {
		last[i/8] |= 1 << (7 - i%8)
	}
	return last
}

// addressesOf returns the addresses of a link with an IP.
func addressesOf(link int, ip netip.Addr) (have []address, err error) {
	family := uint8(unix.AF_INET)
	if ip.Is6() {
		family = unix.AF_INET6
	}
	all, err := addressMessages.listFamily(family)
	for _, o := range all {
		if addr := readAddress(o); addr.link == link && addr.cidr.Addr() == ip {
			have = append(have, addr)
		}
	}
	return have, err
}

// delete removes the address. A missing address is no error.
func (a address) delete() error {
	err := wrote("address", addressMessages.delete(a.object))
	if err == nil || errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return fmt.Errorf("delete address %v of link %d: %w", a, a.link, err)
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	ip := prefix.Addr()
	return &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(prefix.Bits(), ip.BitLen())}
}
