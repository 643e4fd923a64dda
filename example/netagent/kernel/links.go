// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/cilium/statedb"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/observed"
)

// links creates and removes network interfaces.
type links struct{ surroundings }

// Update creates the link if it is missing or of another type, and then sets what differs.
func (l *links) Update(_ context.Context, txn statedb.ReadTxn, _ statedb.Revision, row *desired.Link) error {
	want := row.Spec
	have, err := findLink(want.Name)
	if err != nil {
		return err
	}
	made := have == nil || !l.isA(have, want)
	if made {
		if have, err = l.create(have, want); err != nil {
			return err
		}
	}
	changed, err := l.configure(txn, have, want)
	if made || changed {
		repaired(l.surroundings, txn, l.Tables.Loops.Links, "link", row)
	}
	return err
}

// isA reports whether a link is of the desired kind and, for a veth, has the desired other end: the
// properties that cannot be changed.
func (l *links) isA(have netlink.Link, want config.Link) bool {
	return kindOf(have) == want.Kind && (want.Kind != config.Veth || peerName(have) == want.Peer)
}

// kindOf returns the kind of a link.
func kindOf(link netlink.Link) config.LinkKind {
	if link.Attrs().Flags&net.FlagLoopback != 0 {
		return config.Loopback
	}
	return config.LinkKind(link.Type())
}

// peerName returns the name of a veth's other end, or "" if that is in another network namespace or the link is no
// veth.
func peerName(veth netlink.Link) string {
	if kindOf(veth) != config.Veth || veth.Attrs().NetNsID >= 0 {
		return ""
	}
	peer, err := netlink.LinkByIndex(veth.Attrs().ParentIndex)
	if err != nil {
		return ""
	}
	return peer.Attrs().Name
}

// create replaces old by a new link; old is nil if there is none. It also replaces a link with the name of
// the new link's other end.
func (l *links) create(old netlink.Link, want config.Link) (netlink.Link, error) {
	if want.Kind == config.Loopback {
		return nil, fmt.Errorf("link %q: the kernel has no such loopback", want.Name)
	}
	if old != nil {
		if err := l.replace(old, want.Name); err != nil {
			return nil, err
		}
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = want.Name, want.MTU
	var link netlink.Link
	if want.Kind == config.Bridge {
		// The MTU of a bridge follows those of its ports until it is changed once: so it starts with another
		// value.
		attrs.MTU ^= 1
		link = &netlink.Bridge{LinkAttrs: attrs}
	} else {
		link = &netlink.Veth{LinkAttrs: attrs, PeerName: want.Peer}
		other, err := findLink(want.Peer)
		if err != nil {
			return nil, err
		}
		if other != nil {
			if err := l.replace(other, want.Peer); err != nil {
				return nil, err
			}
		}
		defer l.Undid(want.Peer, desired.UndidAll)
	}
	if err := wrote("link", netlink.LinkAdd(link)); err != nil {
		err = fmt.Errorf("create %s %q: %w", want.Kind, want.Name, err)
		if errors.Is(err, unix.EEXIST) {
			err = inTheWay(err, want.Name, want.Peer)
		}
		return nil, classed(err)
	}
	l.Undid(want.Name, desired.UndidAll&^desired.UndidLink)
	made, err := findLink(want.Name)
	if err == nil && made == nil {
		err = fmt.Errorf("link %q vanished right after it was created", want.Name)
	}
	return made, err
}

// replace deletes a link in whose place another is created, and logs that if it is not of the same kind: it was
// another program's.
func (l *links) replace(old netlink.Link, name string) error {
	if kind := old.Type(); kind != "bridge" && kind != "veth" {
		l.log.Warn("removed a link of another kind, since a row has its name", "name", name, "kind", kind)
	}
	return deleteLink(old)
}

// inTheWay adds to an error which link has one of the names as an alternative one, which keeps all other links from it.
func inTheWay(err error, names ...string) error {
	for _, name := range names {
		if holder, _ := nameHolder(name); holder != nil && holder.Attrs().Name != name {
			err = fmt.Errorf("%w (%q is an alternative name of link %q)", err, name, holder.Attrs().Name)
		}
	}
	return err
}

// configure sets what differs of a link of the right type, and reports whether anything did.
func (l *links) configure(txn statedb.ReadTxn, have netlink.Link, want config.Link) (changed bool, err error) {
	bridge, err := l.bridge(txn, want)
	if err != nil {
		return false, err
	}
	attrs := have.Attrs()
	for _, setting := range []struct {
		what   string
		differ bool
		set    func() error
	}{
		{"mtu", attrs.MTU != want.MTU, func() error { return netlink.LinkSetMTU(have, want.MTU) }},
		{"mac", want.MAC != "" && attrs.HardwareAddr.String() != want.MAC, func() error { return setMAC(have, want.MAC) }},
		{"master", attrs.MasterIndex != bridge.Index, func() error { return netlink.LinkSetMasterByIndex(have, bridge.Index) }},
		{"up", want.Up && attrs.Flags&net.FlagUp == 0, func() error { return netlink.LinkSetUp(have) }},
		{"down", !want.Up && attrs.Flags&net.FlagUp != 0, func() error { return netlink.LinkSetDown(have) }},
	} {
		if !setting.differ {
			continue
		}
		if err = wrote("link", setting.set()); err != nil {
			err = l.notSet(txn, have, bridge, fmt.Errorf("set %s of link %q: %w", setting.what, want.Name, err))
			break
		}
		changed = true
	}
	if changed {
		// Too small an MTU ends IPv6 on a link, with its settings.
		l.Undid(want.Name, desired.UndidAddresses|desired.UndidRoutes|desired.UndidSysctls)
		l.undidBridge(txn, attrs.MasterIndex)
		l.undidBridge(txn, bridge.Index)
	}
	return changed, err
}

// undidBridge reports that a port of a bridge has changed: a bridge may take its MTU and its MAC from its ports. There
// is no bridge of index 0.
func (l *links) undidBridge(txn statedb.ReadTxn, index int) {
	if bridge, _, known := l.Links.Get(txn, observed.ByIndex(index)); known {
		l.Undid(bridge.Name, desired.UndidLink)
	}
}

// bridge returns the bridge of the link, or one with index 0 if the link has none.
func (l *links) bridge(txn statedb.ReadTxn, want config.Link) (*observed.Link, error) {
	if want.Master == "" {
		return &observed.Link{}, nil
	}
	return l.needLink(txn, want.Master)
}

// notSet returns the outcome of an update that could not set a property of a link.
func (l *links) notSet(txn statedb.ReadTxn, have netlink.Link, bridge *observed.Link, err error) error {
	now, lookErr := linkByIndex(have.Attrs().Index)
	switch {
	case lookErr != nil || now == nil:
		return err // it was removed: the next attempt creates it
	case bridge.Index != 0:
		return l.failedOn(txn, bridge, err)
	}
	return classed(err)
}

func setMAC(link netlink.Link, text string) error {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return err
	}
	return netlink.LinkSetHardwareAddr(link, mac)
}

// Delete removes the link, and the other end of a veth with it. The loopback cannot be removed: it is set
// down. A link of another kind that has the name now is another program's.
func (l *links) Delete(_ context.Context, txn statedb.ReadTxn, _ statedb.Revision, row *desired.Link) error {
	link, err := findLink(row.Spec.Name)
	if err != nil || link == nil || kindOf(link) != row.Spec.Kind {
		return err
	}
	if row.Source == "" && l.mentioned(txn, row.Spec.Name, peerName(link)) {
		return nil // it was listed, and a row that needs it has come since
	}
	defer l.Undid(row.Spec.Name, desired.UndidAll)
	defer l.undidBridge(txn, link.Attrs().MasterIndex)
	if row.Spec.Kind == config.Loopback {
		if err := wrote("link", netlink.LinkSetDown(link)); err != nil {
			return fmt.Errorf("set link %q down: %w", row.Spec.Name, err)
		}
		return nil
	}
	return removed(l.surroundings, "link", row, deleteLink(link))
}

// List lists the links with a row, and the bridges and veths whose names no row mentions, neither as a link nor as a
// dependency, since another program may have created a dependency. Links of other kinds are left out: the kernel
// makes some by itself, such as tunl0. So is a veth whose other end a row mentions, and would be removed with it.
func (l *links) List(ctx context.Context, _ statedb.ReadTxn, yield func(*desired.Link) bool) error {
	txn, all, names, err := l.look(ctx)
	if err != nil {
		return err
	}
	for _, link := range all {
		found := specOf(link, names)
		row, _, asked := l.Tables.Links.Get(txn, desired.ByKey[config.Link](found.Name))
		switch {
		case asked && row.Spec.MAC == "":
			found.MAC = ""
		case asked:
		case link.Type() != "veth" && link.Type() != "bridge", l.mentioned(txn, found.Name, found.Peer):
			continue
		}
		if !yield(&desired.Link{Spec: found}) {
			break
		}
	}
	return nil
}

// Get gets a link as List lists it. Of a row that is gone, it gets what Delete has to remove.
func (l *links) Get(_ context.Context, txn statedb.ReadTxn, wanted *desired.Link) (found *desired.Link, ok bool, err error) {
	link, err := findLink(wanted.Spec.Name)
	if err != nil || link == nil {
		return nil, false, err
	}
	names := make(map[int]string)
	for _, index := range []int{link.Attrs().MasterIndex, link.Attrs().ParentIndex} {
		if names[index], err = linkName(index); err != nil {
			return nil, false, err
		}
	}
	spec := specOf(link, names)
	if wanted.Spec.MAC == "" {
		spec.MAC = ""
	}
	_, _, asked := l.Tables.Links.Get(txn, desired.ByKey[config.Link](spec.Name))
	if !asked && (spec.Kind != wanted.Spec.Kind || spec.Kind == config.Loopback && !spec.Up) {
		return nil, false, nil
	}
	return &desired.Link{Spec: spec}, true, nil
}

// mentioned reports whether a row is about a link of these names, or needs one.
func (l *links) mentioned(txn statedb.ReadTxn, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, _, asked := l.Tables.Links.Get(txn, desired.ByKey[config.Link](name))
		return asked || l.Tables.Needed(txn, name)
	})
}

// specOf returns what a row would say of a link. names has the names of all links.
func specOf(link netlink.Link, names map[int]string) config.Link {
	attrs := link.Attrs()
	spec := config.Link{
		Name: attrs.Name, Kind: kindOf(link), Master: names[attrs.MasterIndex],
		MTU: attrs.MTU, MAC: attrs.HardwareAddr.String(), Up: attrs.Flags&net.FlagUp != 0,
	}
	if spec.Kind == config.Veth && attrs.NetNsID < 0 {
		spec.Peer = names[attrs.ParentIndex] // the other end is in this namespace
	}
	return spec
}

// deleteLink removes a link. A missing link is no error: it may have been the other end of a link that was
// removed.
func deleteLink(link netlink.Link) error {
	err := wrote("link", netlink.LinkDel(link))
	if err == nil {
		return nil
	}
	still, findErr := linkByIndex(link.Attrs().Index)
	if findErr == nil && still == nil {
		return nil
	}
	return fmt.Errorf("delete link %q: %w", link.Attrs().Name, errors.Join(err, findErr))
}
