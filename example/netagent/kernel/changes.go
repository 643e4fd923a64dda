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

	// changed holds what the changes of links may have undone.
	changed map[string]desired.Effect

	// err is the first error; later changes are not made.
	err error
}

// replace makes the table contain exactly these links.
func (c *changes) replace(all []netlink.Link) {
	names := make(map[int]string, len(all))
	for _, link := range all {
		names[link.Attrs().Index] = link.Attrs().Name
	}
	// Removals come first: another link may have the name or the index now.
	for row := range c.links.All(c.txn) {
		if names[row.Index] != row.Name {
			c.remove(row)
		}
	}
	for _, link := range all {
		c.put(rowOf(link))
	}
}

// apply makes the changes of the kernel's messages, in order.
func (c *changes) apply(updates []netlink.LinkUpdate) {
	for _, update := range updates {
		// A bridge reports its ports with another address family: a port that left is removed from the
		// bridge, but still a link.
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

// put inserts or updates a link. A link that was renamed is removed under its old name.
func (c *changes) put(row *observed.Link) {
	if old, _, known := c.links.Get(c.txn, observed.ByIndex(row.Index)); known && old.Name != row.Name {
		c.remove(old)
	}
	old, _, known := c.links.Get(c.txn, observed.ByName(row.Name))
	switch {
	case known && *old == *row:
		return // no change: waiting operations are not woken
	case known && old.Up && !row.Up:
		c.changed[row.Name] |= desired.UndidAddresses | desired.UndidRoutes | desired.UndidRefusals
	case known:
		c.changed[row.Name] |= desired.UndidRefusals
	}
	if c.err == nil {
		_, _, c.err = c.links.Insert(c.txn, row)
	}
}

// remove deletes a link from the table.
func (c *changes) remove(row *observed.Link) {
	c.changed[row.Name] |= desired.UndidAll | desired.UndidRefusals
	if c.err == nil {
		_, _, c.err = c.links.Delete(c.txn, row)
	}
}

// rowOf returns the row of a link.
func rowOf(link netlink.Link) *observed.Link {
	attrs := link.Attrs()
	return &observed.Link{Name: attrs.Name, Index: attrs.Index, Kind: link.Type(), MTU: attrs.MTU, Up: attrs.Flags&net.FlagUp != 0}
}
