// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
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

// List reads everything back. A table that another program has deleted is empty. Rules of the chains in use that are not
// as they should be are written again, as by [Open]: nothing else would find out.
func (t *Table) List() (Listing, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range attempts {
		l, err := t.read()
		if err != nil {
			return Listing{}, fmt.Errorf("list table %s: %w", t.table.Name, err)
		}
		// The chains that are not in use may be gone too: the next commit that needs one looks.
		clear(t.written)
		counts := make(map[int]bool)
		for _, n := range l.Counts {
			if n > 0 {
				counts[n] = true
			}
		}
		// If rules were missing, so may be elements that were read before.
		if writes, err := t.ensure(baseChains(t.table), counts); err != nil || !writes {
			return l, err
		}
	}
	return Listing{}, fmt.Errorf("list table %s: its rules change all the time", t.table.Name)
}

func (t *Table) read() (Listing, error) {
	slots, err := dump(t, endpointsMap, func(e element) (Slot, netip.AddrPort) { return Slot{e.service, e.slot}, e.endpoint })
	counts, err2 := dump(t, servicesMap, func(e element) (Service, int) { return e.service, e.count })
	empty, err3 := dump(t, emptySet, func(e element) (Service, int) { return e.service, 0 })
	if err := errors.Join(err, err2, err3); err != nil {
		return Listing{}, err
	}
	maps.Copy(counts, empty)
	return Listing{Counts: counts, Slots: slots}, nil
}

// attempts is how often a set is read until it is complete.
const attempts = 10

// dump reads the elements of a set. While the kernel moves them to a table of another size, as it does for some
// time after many were added or deleted, it skips some: so the set is read until all are there.
func dump[K comparable, V any](t *Table, set string, entry func(element) (K, V)) (map[K]V, error) {
	for range attempts {
		count, err := t.count(set)
		if errors.Is(err, unix.ENOENT) {
			return map[K]V{}, nil // the set is gone, and everything that was in it
		}
		all := make(map[K]V, max(count, 0))
		if err == nil {
			err = t.elements(set, func(e element) { k, v := entry(e); all[k] = v })
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", set, err)
		}
		if len(all) == count {
			return all, nil
		}
	}
	return nil, fmt.Errorf("%s changes all the time", set)
}

// setCount is the attribute NFTA_SET_COUNT, which kernels have from version 6.16 on.
const setCount = 20

// count returns how many elements a set has.
func (t *Table) count(set string) (int, error) {
	count := absent
	err := t.ask(unix.NFT_MSG_GETSET, 0, set, func(a answer) error {
		return attributes(a.data[nfHeader:], func(kind int, value []byte, _ int) error {
			if kind == setCount && len(value) == 4 {
				count = int(binary.BigEndian.Uint32(value))
			}
			return nil
		})
	})
	if err == nil && count == absent {
		err = errors.New("the kernel does not say how many elements there are: it is older than version 6.16")
	}
	return count, err
}

// elements calls yield for the elements of a set.
func (t *Table) elements(set string, yield func(element)) error {
	return t.ask(unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, set, func(a answer) error {
		return attributes(a.data[nfHeader:], func(kind int, value []byte, _ int) error {
			if kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				return nil
			}
			return attributes(value, func(_ int, value []byte, _ int) error {
				e, err := decodeElement(value)
				if err == nil && e.service.Address.IsValid() { // somebody else's element for all other keys has none
					yield(e)
				}
				return err
			})
		})
	})
}

// ask sends a request about a set, and calls yield for each answer with data.
func (t *Table) ask(kind, flags int, set string, yield func(answer) error) error {
	var m messages
	message := m.begin(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags, unix.NFPROTO_IPV4, 0)
	// Requests about a set and about its elements name it by the same attributes.
	m.text(unix.NFTA_SET_TABLE, t.table.Name)
	m.text(unix.NFTA_SET_NAME, set)
	m.end(message)
	if err := t.socket.send(&m); err != nil {
		return err
	}
	return t.socket.receive(func(a answer) error {
		switch {
		case a.kind == unix.NLMSG_ERROR:
			return a.failure().err
		case a.kind == unix.NLMSG_DONE && len(a.data) >= 4:
			if code := int32(binary.NativeEndian.Uint32(a.data)); code < 0 {
				return unix.Errno(-code)
			}
			return nil
		case a.kind == unix.NLMSG_DONE || len(a.data) < nfHeader:
			return nil
		}
		return yield(a)
	})
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
