// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Listing is what a table has.
type Listing struct {
	// Counts has the number of endpoints of every service; it is 0 for those that reject, and -1 for those that
	// another program wrote and that go elsewhere.
	Counts map[Service]int
	Slots  map[Slot]netip.AddrPort
}

// List reads everything back. A table that another program has deleted is empty.
func (t *Table) List() (Listing, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Another program may have changed the rules too: the next commit looks.
	clear(t.written)
	l := Listing{Counts: make(map[Service]int), Slots: make(map[Slot]netip.AddrPort)}
	for set, yield := range map[string]func(element){
		endpointsMap: func(e element) { l.Slots[Slot{e.service, e.slot}] = e.endpoint },
		servicesMap:  func(e element) { l.Counts[e.service] = e.count },
		emptySet:     func(e element) { l.Counts[e.service] = 0 },
	} {
		if err := t.dump(set, yield); err != nil && !errors.Is(err, unix.ENOENT) {
			return Listing{}, fmt.Errorf("list %s of table %s: %w", set, t.table.Name, err)
		}
	}
	return l, nil
}

// dump calls yield for each element of a set.
func (t *Table) dump(set string, yield func(element)) error {
	var m messages
	message := m.begin(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, unix.NFPROTO_IPV4, 0)
	m.text(unix.NFTA_SET_ELEM_LIST_TABLE, t.table.Name)
	m.text(unix.NFTA_SET_ELEM_LIST_SET, set)
	m.end(message)
	if err := t.socket.send(&m); err != nil {
		return err
	}
	done := false
	err := t.socket.receive(func(a answer) error {
		switch a.kind {
		case unix.NLMSG_ERROR:
			return a.failure().err
		case unix.NLMSG_DONE:
			done = true
			if len(a.data) >= 4 {
				if code := int32(binary.NativeEndian.Uint32(a.data)); code < 0 {
					return unix.Errno(-code)
				}
			}
			return nil
		}
		return attributes(a.data[nfHeader:], func(kind int, value []byte, _ int) error {
			if kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				return nil
			}
			return attributes(value, func(_ int, value []byte, _ int) error {
				e, err := decodeElement(value)
				if err == nil {
					yield(e)
				}
				return err
			})
		})
	})
	if err == nil && !done {
		err = errors.New("the kernel sent no end")
	}
	return err
}

// element is an element of any of the maps.
type element struct {
	service  Service
	slot     int // -1 if the key has none
	endpoint netip.AddrPort
	count    int // of a verdict
}

var errMalformed = errors.New("the kernel sent a malformed element")

// decodeElement decodes the attributes of an element.
func decodeElement(buf []byte) (element, error) {
	e := element{slot: -1, count: absent}
	err := attributes(buf, func(kind int, value []byte, _ int) error {
		if kind != unix.NFTA_SET_ELEM_KEY && kind != unix.NFTA_SET_ELEM_DATA {
			return nil
		}
		return attributes(value, func(inner int, value []byte, _ int) error {
			switch {
			case inner == unix.NFTA_DATA_VERDICT:
				return attributes(value, func(kind int, value []byte, _ int) error {
					if kind == unix.NFTA_VERDICT_CHAIN {
						e.count = countOf(value)
					}
					return nil
				})
			case kind == unix.NFTA_SET_ELEM_DATA && len(value) == 8:
				e.endpoint = addrPort(value)
			case kind == unix.NFTA_SET_ELEM_KEY && (len(value) == 12 || len(value) == 16):
				e.service = Service{Protocol(value[0]), addrPort(value[4:])}
				if len(value) == 16 {
					e.slot = int(binary.NativeEndian.Uint32(value[12:]))
				}
			default:
				return errMalformed
			}
			return nil
		})
	})
	return e, err
}

// addrPort decodes an address and a port, in a register each.
func addrPort(registers []byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(registers)), binary.BigEndian.Uint16(registers[4:]))
}

// countOf returns the number in the name of a chain that draws, or absent if it is another chain.
func countOf(name []byte) int {
	number, found := strings.CutPrefix(string(bytes.TrimRight(name, "\x00")), drawPrefix)
	n, err := strconv.Atoi(number)
	if !found || err != nil || n < 1 {
		return absent
	}
	return n
}
