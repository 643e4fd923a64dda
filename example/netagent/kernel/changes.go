// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"net"

	"github.com/cilium/statedb"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/observed"
)

// changes are made to the table of the observed links in one transaction.
type changes struct {
	txn   statedb.WriteTxn
	links statedb.RWTable[*observed.Link]

	// undid is what came of links that are no longer what they were.
	undid map[string]desired.Effect

	// err is the first error; what comes after it is not done.
	err error
}

// replace makes the table have these links and no others.
func (c *changes) replace(all []netlink.Link) {
	names := make(map[int]string, len(all))
	for _, link := range all {
		names[link.Attrs().Index] = link.Attrs().Name
	}
	// First what is gone: its name or its index may be another link's now.
	for row := range c.links.All(c.txn) {
		if names[row.Index] != row.Name {
			c.remove(row)
		}
	}
	for _, link := range all {
		c.put(rowOf(link))
	}
}

// apply takes in what the kernel told, in order.
func (c *changes) apply(updates []netlink.LinkUpdate) {
	for _, update := range updates {
		// A bridge's view of its ports has another family: one that left is gone from
		// the bridge, and still a link.
		if update.IfInfomsg.Family != unix.AF_UNSPEC {
			continue
		}
		row := rowOf(update.Link)
		if update.Header.Type != unix.RTM_DELLINK {
			c.put(row)
		} else if old, _, known := c.links.Get(c.txn, observed.ByIndex(row.Index)); known {
			c.remove(old)
		}
	}
}

// put makes the table have a link. One that was renamed is gone under its old name.
func (c *changes) put(row *observed.Link) {
	if old, _, known := c.links.Get(c.txn, observed.ByIndex(row.Index)); known && old.Name != row.Name {
		c.remove(old)
	}
	old, _, known := c.links.Get(c.txn, observed.ByName(row.Name))
	switch {
	case known && *old == *row:
		return // and nobody who waits for a change is woken
	case known && old.Up && !row.Up:
		c.undid[row.Name] |= desired.UndidLink | desired.UndidAddresses | desired.UndidRoutes
	case known:
		c.undid[row.Name] |= desired.UndidRefusals
	}
	if c.err == nil {
		_, _, c.err = c.links.Insert(c.txn, row)
	}
}

// remove makes the table not have a link.
func (c *changes) remove(row *observed.Link) {
	c.undid[row.Name] |= desired.UndidAll
	if c.err == nil {
		_, _, c.err = c.links.Delete(c.txn, row)
	}
}

// rowOf returns a link as the table has it.
func rowOf(link netlink.Link) *observed.Link {
	attrs := link.Attrs()
	return &observed.Link{Name: attrs.Name, Index: attrs.Index, Kind: link.Type(), MTU: attrs.MTU, Up: attrs.Flags&net.FlagUp != 0}
}
