// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Changes are what other programs have changed in a [Table].
type Changes struct {
	// By is the name of the program that made the last of them, if the kernel has said so.
	By string
	// Slots are those that were added or deleted. Number is -1 for the service itself. A slot may be in it twice.
	Slots []Slot
	// Rules is set if tables, chains, rules or sets of this program were changed: [Table.Repair] restores them.
	Rules bool
	// More is set if other elements may have been changed too: a set was deleted, an element is none of this program, events
	// were lost, or there are too many slots.
	More bool
}

// maxChanged bounds Changes.Slots.
const maxChanged = 1000

// watch subscribes to the events of nftables. Those of transactions of this table's own socket never come: a large one has
// more of them than a socket holds.
func (t *Table) watch() error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{Groups: 1 << (unix.NFNLGRP_NFTABLES - 1)})
	if err != nil {
		return err
	}
	if err := t.events.open(conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	var own uint32
	failed := t.socket.raw.Control(func(fd uintptr) {
		var address unix.Sockaddr
		if address, err = unix.Getsockname(int(fd)); err == nil {
			own = address.(*unix.SockaddrNetlink).Pid
		}
	})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	// All messages of a datagram are of one transaction, and have the port of its socket in their headers. The filter reads
	// words in network byte order.
	const port = 12
	word := binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, own))
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: port},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: word, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	failed = t.events.raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
	return errors.Join(failed, os.NewSyscallError("setsockopt", err))
}

// Changed waits until another program has changed a table since [Open], or since the last call, and returns what all such
// programs have. It returns the error of ctx if that ends first. One goroutine at a time may call it.
func (t *Table) Changed(ctx context.Context) (Changes, error) {
	deadline := func(at time.Time) { _ = t.events.conn.SetReadDeadline(at) }
	deadline(time.Time{})
	defer context.AfterFunc(ctx, func() { deadline(time.Now()) })()
	var c Changes
	within := false // a transaction whose end has not come
	lost := false   // and may never come
	for {
		whole := lost || !within && (len(c.Slots) > 0 || c.Rules || c.More)
		var n int
		var err error
		failed := t.events.raw.Read(func(fd uintptr) bool {
			n, _, err = unix.Recvfrom(int(fd), t.events.buf, unix.MSG_DONTWAIT)
			return whole || !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case ctx.Err() != nil:
			return c, context.Cause(ctx)
		case failed != nil:
			return c, fmt.Errorf("watch nftables: %w", failed)
		case errors.Is(err, unix.EAGAIN):
			return c, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS):
			c.Rules, c.More, lost = true, true, true
		case err != nil:
			return c, fmt.Errorf("watch nftables: %w", os.NewSyscallError("recvfrom", err))
		default:
			all, err := syscall.ParseNetlinkMessage(t.events.buf[:n])
			if err != nil {
				return c, fmt.Errorf("watch nftables: %w", err)
			}
			for _, m := range all {
				if m.Header.Type != unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN {
					within = t.changed(&c, m) || within
				} else if within && len(m.Data) >= nfHeader {
					within, c.By = false, text(m.Data[nfHeader:], unix.NFTA_GEN_PROC_NAME)
				}
			}
		}
	}
}

// The messages NFT_MSG_DESTROY..., of which package unix has none.
const (
	messageDestroyTable = 26 + iota
	messageDestroyChain
	messageDestroyRule
	messageDestroySet
)

// changed adds what an event says, and reports whether it is about one of the tables.
func (t *Table) changed(c *Changes, m syscall.NetlinkMessage) bool {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < nfHeader {
		return false
	}
	for _, single := range t.tables {
		if m.Data[0] == byte(single.TableFamily) {
			return single.changed(c, m.Header.Type&0xff, m.Data[nfHeader:])
		}
	}
	return false
}

func (t *single) changed(c *Changes, kind uint16, data []byte) bool {
	// All events name the table by the same attribute.
	if text(data, unix.NFTA_TABLE_NAME) != t.table.Name {
		return false
	}
	switch kind {
	case unix.NFT_MSG_NEWTABLE:
		c.Rules = true
	case unix.NFT_MSG_DELTABLE, messageDestroyTable:
		c.Rules, c.More = true, true
	case unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN, messageDestroyChain:
		c.Rules = c.Rules || t.hasChain(text(data, unix.NFTA_CHAIN_NAME))
	case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE, messageDestroyRule:
		c.Rules = c.Rules || t.hasChain(text(data, unix.NFTA_RULE_CHAIN))
	case unix.NFT_MSG_NEWSET, unix.NFT_MSG_DELSET, messageDestroySet:
		if t.hasSet(text(data, unix.NFTA_SET_NAME)) {
			c.Rules, c.More = true, true
		}
	case unix.NFT_MSG_NEWSETELEM, unix.NFT_MSG_DELSETELEM, messageDestroyElements:
		if set := text(data, unix.NFTA_SET_ELEM_LIST_SET); set == sameSet {
			c.Rules = true
		} else if t.hasSet(set) {
			c.elements(set, pick(data, unix.NFTA_SET_ELEM_LIST_ELEMENTS))
		}
	}
	return true
}

// elements adds those of an event.
func (c *Changes) elements(set string, list []byte) {
	err := attributes(list, func(_ int, value []byte, _ int) error {
		e, err := decodeElement(value)
		if err != nil {
			return err
		}
		slot, valid := e.slot()
		if set != endpointsMap {
			slot.Number = -1
			slot.Service, valid = e.service()
		}
		if valid = valid && len(c.Slots) < maxChanged; valid {
			c.Slots = append(c.Slots, slot)
		}
		c.More = c.More || !valid
		return nil
	})
	c.More = c.More || err != nil
}

// hasChain reports whether a chain is one of this program, and hasSet whether a set is.
func (t *single) hasChain(name string) bool {
	return countOf(name) > 0 || slices.ContainsFunc(t.baseChains(t.table), func(c chain) bool { return c.Name == name })
}

func (t *single) hasSet(name string) bool {
	return slices.ContainsFunc(t.sets(t.table), func(s *nftables.Set) bool { return s.Name == name })
}

// Repair makes the chains in use, their rules and the sets be as they should, as [Table.List] does, without reading the
// elements. It reports whether they were not: with a set, its elements were gone.
func (t *Table) Repair() (wrote bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, single := range t.tables {
		counts := make(map[int]bool, len(single.written))
		for name := range single.written {
			counts[countOf(name)] = true
		}
		clear(single.written)
		writes, err := single.ensure(true, counts)
		if wrote = wrote || writes; err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// Get reads back what its table has of one service, as [Table.List] does: its number of endpoints, and the slots that are
// numbered below that, or below the argument.
func (t *Table) Get(service Service, slots int) (Listing, error) {
	l := Listing{Counts: make(map[Service]int), Slots: make(map[Slot]netip.AddrPort)}
	if !service.fits(netip.AddrPort{}) {
		return l, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.tables[slices.IndexFunc(t.tables[:], func(single *single) bool { return service.isOf(single.family) })]
	err := errors.Join(
		of.get(servicesMap, service, -1, 0, func(e element) { l.Counts[service] = e.count() }),
		of.get(emptySet, service, -1, 0, func(e element) {
			if _, both := l.Counts[service]; both || e.odd {
				l.Counts[service] = absent
			} else {
				l.Counts[service] = 0
			}
		}))
	const atOnce = 100 // the socket has room for the answers
	end := min(max(slots, l.Counts[service]), MaxSlots)
	for from := 0; err == nil && from < end; from += atOnce {
		err = of.get(endpointsMap, service, from, min(from+atOnce, end), func(e element) {
			if slot, valid := e.slot(); valid {
				l.Slots[slot] = e.endpoint()
			}
		})
	}
	if err != nil {
		return Listing{}, fmt.Errorf("read %s of table %s: %w", service, of, err)
	}
	return l, nil
}

// get asks a set for the elements of slots, those with numbers of at least from and below to, or for that of the service if
// from is -1. It calls yield for each that is there.
func (t *single) get(set string, service Service, from, to int, yield func(element)) error {
	var m messages
	for slot := from; slot < to; slot++ {
		// Of several in one message, the kernel leaves out those behind one that is missing.
		message := m.begin(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETSETELEM, 0, byte(t.TableFamily), 0)
		m.text(unix.NFTA_SET_ELEM_LIST_TABLE, t.table.Name)
		m.text(unix.NFTA_SET_ELEM_LIST_SET, set)
		list := m.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		element := m.nest(unix.NFTA_LIST_ELEM)
		m.key(service, slot)
		m.close(element)
		m.close(list)
		m.end(message)
	}
	if err := t.socket.send(&m); err != nil {
		return err
	}
	return t.socket.receive(func(a answer) error {
		if a.kind == unix.NLMSG_ERROR {
			if err := a.failure().err; !errors.Is(err, unix.ENOENT) { // of the element, the set or the table
				return err
			}
			return nil
		}
		if len(a.data) < nfHeader {
			return nil
		}
		return attributes(pick(a.data[nfHeader:], unix.NFTA_SET_ELEM_LIST_ELEMENTS), func(_ int, value []byte, _ int) error {
			e, err := decodeElement(value)
			if err == nil {
				yield(e)
			}
			return err
		})
	})
}
