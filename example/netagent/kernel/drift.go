// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/internal/recheck"
	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/observed"
	"github.com/statekeel/statekeel/reconciler"
)

// drift has the reconcilers look at the rows that the kernel's messages are about. A message that says that the kernel has
// what a row wants is about nothing: mostly it is the echo of an operation. What no row asks for, and is removed, is left to
// a resync at once.
type drift struct {
	desired.Surroundings
	owns func(route) bool

	links     *recheck.Queue[*desired.Link]
	addresses *recheck.Queue[*desired.Address]
	routes    *recheck.Queue[*desired.Route]
	sysctls   *recheck.Queue[*desired.Sysctl]
}

func newDrift(f *feed) *drift {
	loops := f.Tables.Loops
	return &drift{
		Surroundings: f.Surroundings, owns: f.routes.owns,
		links: recheck.New(loops.Links), addresses: recheck.New(loops.Addresses),
		routes: recheck.New(loops.Routes), sysctls: recheck.New(loops.Sysctls),
	}
}

// start runs the queues until the context ends.
func (d *drift) start(ctx context.Context, done *sync.WaitGroup) {
	for _, run := range []job.OneShotFunc{d.links.Run, d.addresses.Run, d.routes.Run, d.sysctls.Run} {
		done.Go(func() { _ = run(ctx, nil) })
	}
}

// resync has everything compared: what happened before a subscription has no message.
func (d *drift) resync() {
	d.links.Resync()
	d.addresses.Resync()
	d.routes.Resync()
	d.sysctls.Resync()
}

// link has the rows looked at that a change of a link may have undone.
func (d *drift) link(name string, effect desired.Effect) {
	txn := d.DB.ReadTxn()
	if row, _, asked := d.Tables.Links.Get(txn, desired.ByKey[config.Link](name)); asked && effect&desired.UndidLink != 0 {
		d.links.Verify(row)
	}
	if effect&desired.UndidPorts != 0 {
		needing(txn, d.Tables.Links, d.links, name)
	}
	if effect&desired.UndidAddresses != 0 {
		needing(txn, d.Tables.Addresses, d.addresses, name)
	}
	if effect&desired.UndidRoutes != 0 {
		needing(txn, d.Tables.Routes, d.routes, name)
	}
	if effect&desired.UndidSysctls != 0 {
		needing(txn, d.Tables.Sysctls, d.sysctls, name)
	}
}

// needing asks for a look at the rows that need a link.
func needing[S desired.Spec](
	txn statedb.ReadTxn, table statedb.Table[*desired.Row[S]], looks *recheck.Queue[*desired.Row[S]], link string,
) {
	for row := range table.List(txn, desired.ByNeeds[S](link)) {
		looks.Verify(row)
	}
}

// hear asks for the looks that messages are reasons for. The table of links has what they say of links.
func (d *drift) hear(messages []syscall.NetlinkMessage) error {
	txn := d.DB.ReadTxn()
	for _, m := range messages {
		var err error
		switch m.Header.Type {
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			err = d.linkChanged(txn, m)
		case unix.RTM_NEWADDR, unix.RTM_DELADDR:
			err = d.addressChanged(txn, m)
		case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
			err = d.routeChanged(txn, m)
		case unix.RTM_NEWNETCONF:
			err = d.sysctlChanged(txn, m)
		}
		if err != nil {
			return fmt.Errorf("read a message of the kernel: %w", err)
		}
	}
	return nil
}

// linkChanged: the table of links has not all that a row asks for.
func (d *drift) linkChanged(txn statedb.ReadTxn, m syscall.NetlinkMessage) error {
	header := nl.DeserializeIfInfomsg(m.Data)
	link, _, known := d.Links.Get(txn, observed.ByIndex(int(header.Index)))
	if !known || header.Family != unix.AF_UNSPEC {
		return nil
	}
	row, _, asked := d.Tables.Links.Get(txn, desired.ByKey[config.Link](link.Name))
	switch {
	case asked:
		d.links.Verify(row)
	case (link.Kind == string(config.Bridge) || link.Kind == string(config.Veth)) && !d.Tables.Needed(txn, link.Name):
		d.links.Resync()
	}
	return nil
}

func (d *drift) addressChanged(txn statedb.ReadTxn, m syscall.NetlinkMessage) error {
	o, err := addressMessages.read(m.Data)
	if err != nil {
		return err
	}
	addr, fresh := readAddress(o), m.Header.Type == unix.RTM_NEWADDR
	link, _, known := d.Links.Get(txn, observed.ByIndex(addr.link))
	if !known {
		return nil
	}
	key := config.Address{Dev: link.Name, CIDR: addr.cidr}.Key()
	row, _, asked := d.Tables.Addresses.Get(txn, desired.ByKey[config.Address](key))
	switch {
	case asked && fresh && addr.is(row.Spec) && !failed(d.Tables.Loops.Addresses, txn, row):
	case asked:
		d.addresses.Verify(row)
	case fresh && !addr.kernels:
		d.addresses.Resync()
	}
	if !fresh {
		// The kernel removes other addresses and routes with it, and does not tell of all.
		d.link(link.Name, desired.UndidAddresses|desired.UndidRoutes)
	}
	return nil
}

func (d *drift) routeChanged(txn statedb.ReadTxn, m syscall.NetlinkMessage) error {
	o, err := routeMessages.read(m.Data)
	if err != nil {
		return err
	}
	found, fresh := readRoute(o), m.Header.Type == unix.RTM_NEWROUTE
	link, _, known := d.Links.Get(txn, observed.ByIndex(found.link))
	row, _, asked := d.Tables.Routes.Get(txn, desired.ByKey[config.Route](found.spec.Key()))
	switch {
	case asked && fresh && known && link.Name == row.Spec.Dev && found.is(row.Spec) && !failed(d.Tables.Loops.Routes, txn, row):
	case asked:
		d.routes.Verify(row)
	case fresh && d.owns(found):
		d.routes.Resync()
	}
	return nil
}

// failed reports whether the last operation on a row has failed: it may be right now.
func failed[S desired.Spec](loop desired.Loop[S], txn statedb.ReadTxn, row *desired.Row[S]) bool {
	status, _ := desired.StatusOf(loop, txn, row)
	return status.Kind == reconciler.StatusKindError
}

// netconfIndex is the attribute with the index of the link of a setting. The kernel has numbers for those of all links,
// and of new ones.
const netconfIndex = 1

// sysctlChanged is called for settings such as forwarding and rp_filter. The kernel tells of no others.
func (d *drift) sysctlChanged(txn statedb.ReadTxn, m syscall.NetlinkMessage) error {
	const header = 4 // struct netconfmsg, with its padding
	if len(m.Data) < header {
		return unix.EBADMSG
	}
	attrs, err := nl.ParseRouteAttr(m.Data[header:])
	i := slices.IndexFunc(attrs, func(a syscall.NetlinkRouteAttr) bool { return a.Attr.Type == netconfIndex && len(a.Value) == 4 })
	if err != nil || i < 0 {
		return err
	}
	group := ""
	switch index := int32(binary.NativeEndian.Uint32(attrs[i].Value)); index {
	case -1:
		group = config.AllLinks
	case -2:
		group = config.NewLinks
	default:
		if link, _, known := d.Links.Get(txn, observed.ByIndex(int(index))); known {
			needing(txn, d.Tables.Sysctls, d.sysctls, link.Name)
		}
		return nil
	}
	for row := range d.Tables.Sysctls.All(txn) {
		// net.ipv4.ip_forward is that of all links under another name.
		if of, _ := row.Spec.Group(); of == group || of == "" && group == config.AllLinks {
			d.sysctls.Verify(row)
		}
	}
	return nil
}
