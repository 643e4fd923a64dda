// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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
