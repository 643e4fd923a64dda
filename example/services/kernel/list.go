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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Listing is what a table has.
type Listing struct {
	// Counts has the number of endpoints of every service; it is 0 for those that reject, and -1 for those that
	// another program wrote and that go elsewhere.
	Counts map[Service]int
	Slots  map[Slot]netip.AddrPort
}

// List reads everything back. What was in a table that another program has deleted is gone. Chains in use, rules and sets that are not
// as they should be are written again, as by [Open], and elements that no [Batch] can write are deleted: nothing else would
// find out.
func (t *Table) List() (Listing, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := Listing{map[Service]int{}, map[Slot]netip.AddrPort{}}
	for _, single := range t.tables {
		l, err := t.list(single)
		if err != nil {
			return Listing{}, fmt.Errorf("list table %s: %w", single, err)
		}
		maps.Copy(all.Counts, l.Counts)
		maps.Copy(all.Slots, l.Slots)
	}
	return all, nil
}

func (t *Table) list(single *single) (Listing, error) {
	for range attempts {
		l, junk, err := single.read()
		if err == nil && len(junk.buf) > 0 {
			if err = t.commit(&junk); err == nil || errors.Is(err, unix.ENOENT) {
				continue
			}
		}
		if err != nil {
			return Listing{}, err
		}
		// The chains that are not in use may be gone too: the next commit that needs one looks.
		clear(single.written)
		// If rules were missing, so may be elements that were read before.
		if writes, err := single.ensure(true, draws(single.family, l.Counts)); err != nil || !writes {
			return l, err
		}
	}
	return Listing{}, errors.New("its rules change all the time")
}

// read returns what the table has, and a transaction without an end that deletes elements of others, or nothing.
func (t *single) read() (l Listing, junk messages, err error) {
	slots, err := dump(t, &junk, endpointsMap, func(e element) (Slot, netip.AddrPort, bool) {
		slot, valid := e.slot()
		return slot, e.endpoint(), valid
	})
	counts, err2 := dump(t, &junk, servicesMap, func(e element) (Service, int, bool) {
		service, valid := e.service()
		return service, e.count(), valid
	})
	empty, err3 := dump(t, &junk, emptySet, func(e element) (Service, int, bool) {
		service, valid := e.service()
		if e.odd {
			return service, absent, valid
		}
		return service, 0, valid
	})
	if err := errors.Join(err, err2, err3); err != nil {
		return Listing{}, messages{}, err
	}
	for service, n := range empty {
		if _, both := counts[service]; both {
			n = absent
		}
		counts[service] = n
	}
	return Listing{Counts: counts, Slots: slots}, junk, nil
}

// attempts is how often a set is read until it is complete.
const attempts = 10

// dump reads the elements of a set. While the kernel moves them to a table of another size, as it does for some
// time after many were added or deleted, it skips some: so the set is read until all are there. It adds the deletion
// of elements whose entry is not valid to a transaction. A set that is described otherwise has no elements: it is replaced.
func dump[K comparable, V any](t *single, junk *messages, set string, entry func(element) (K, V, bool)) (map[K]V, error) {
	isWanted := func(s *nftables.Set) bool { return s.Name == set }
	description := t.sets(t.table)[slices.IndexFunc(t.sets(t.table), isWanted)]
	for i := range attempts {
		time.Sleep(time.Duration(i) * 10 * time.Millisecond) // on a busy machine the kernel takes its time, too
		state, err := t.set(set)
		if errors.Is(err, unix.ENOENT) || err == nil && !state.fits(description) {
			return map[K]V{}, nil // the set is gone, and everything that was in it
		}
		all := make(map[K]V, max(state.count, 0))
		var others [][]byte
		counted := 0 // of others
		if err == nil {
			err = t.elements(set, func(e element) {
				if k, v, valid := entry(e); valid {
					all[k] = v
					return
				}
				others = append(others, bytes.Clone(e.raw))
				if e.key != nil { // the kernel does not count an element for all other keys
					counted++
				}
			})
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", set, err)
		}
		if len(all)+counted == state.count {
			junk.deletion(t, set, others)
			return all, nil
		}
	}
	return nil, fmt.Errorf("%s changes all the time", set)
}

// deletion appends messages that delete elements, which are as the kernel sends them.
func (m *messages) deletion(t *single, set string, others [][]byte) {
	if len(others) > 0 && len(m.buf) == 0 {
		m.end(m.begin(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES))
	}
	for _, raw := range others {
		m.element(t, set, messageDestroyElements, func() { m.buf = append(m.buf, raw...) })
	}
}

// element appends a message that changes one element of a set.
func (m *messages) element(t *single, set string, kind int, appendElement func()) {
	elements(m, t.family, t.table.Name, set, kind, map[int]bool{0: true}, func(int, bool) bool { return true },
		func(int, bool) { appendElement() })
}

// setCount is the attribute NFTA_SET_COUNT, which kernels have from version 6.16 on.
const setCount = 20

// Attributes of sets that golang.org/x/sys/unix does not have.
const (
	setExpression  = 17 // NFTA_SET_EXPR
	setExpressions = 18 // NFTA_SET_EXPRESSIONS
)

// setState is what the kernel says about a set, except its name and the types that only nft looks at.
type setState struct {
	count                        int
	flags, key, data, size, more uint32
	verdicts                     bool
}

// set reads the description of a set, and how many elements it has.
func (t *single) set(name string) (s setState, err error) {
	s.count = absent
	err = t.ask(unix.NFT_MSG_GETSET, 0, unix.NFTA_SET_NAME, name, func(a answer) error {
		return attributes(a.data[nfHeader:], func(kind int, value []byte, _ int) error {
			n := uint32(0)
			if len(value) == 4 {
				n = binary.BigEndian.Uint32(value)
			}
			switch kind {
			case setCount:
				s.count = int(n)
			case unix.NFTA_SET_FLAGS:
				s.flags = n &^ setConcat
			case unix.NFTA_SET_KEY_LEN:
				s.key = n
			case unix.NFTA_SET_DATA_TYPE:
				s.verdicts = n == unix.NFT_DATA_VERDICT
			case unix.NFTA_SET_DATA_LEN:
				s.data = n
			case unix.NFTA_SET_DESC:
				s.size = number(value, unix.NFTA_SET_DESC_SIZE)
			case unix.NFTA_SET_TIMEOUT, unix.NFTA_SET_OBJ_TYPE, setExpression, setExpressions:
				s.more++
			}
			return nil
		})
	})
	if err == nil && s.count == absent {
		err = errors.New("the kernel does not say how many elements there are: it is older than version 6.16")
	}
	return s, err
}

// setConcat is the flag NFT_SET_CONCAT, which nft adds to the sets that it restores. It changes nothing without intervals.
const setConcat = 0x80

// fits reports whether the kernel's set is the one that this program would add. The description need not be the same
// to the letter: nft describes the sets of a table that it restores in more detail.
func (s setState) fits(want *nftables.Set) bool {
	s.count = 0
	w := setState{key: want.KeyType.Bytes}
	if want.IsMap {
		w.flags, w.data, w.verdicts = unix.NFT_SET_MAP, want.DataType.Bytes, want.DataType == nftables.TypeVerdict
	}
	if w.verdicts {
		w.data, s.data = 0, 0
	}
	return s == w
}

// elements calls yield for the elements of a set.
func (t *single) elements(set string, yield func(element)) error {
	return t.ask(unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, unix.NFTA_SET_ELEM_LIST_SET, set, func(a answer) error {
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
}

// ask sends a request about the table, or what it has under a name, and calls yield for each answer with data.
func (t *single) ask(kind, flags, nameKind int, name string, yield func(answer) error) error {
	var m messages
	message := m.begin(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags, byte(t.TableFamily), 0)
	// All requests name the table by the same attribute.
	m.text(unix.NFTA_TABLE_NAME, t.table.Name)
	if name != "" {
		m.text(nameKind, name)
	}
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

// element is an element of any of the sets.
type element struct {
	raw, key, data []byte
	// chain is where a verdict goes to.
	chain string
	// odd is set if there is more to it, which no element of this program has: it limits packets, or ends some time.
	odd bool
}

var errMalformed = errors.New("the kernel sent a malformed element")

// decodeElement decodes the attributes of an element.
func decodeElement(buf []byte) (e element, err error) {
	e.raw = buf
	err = attributes(buf, func(kind int, value []byte, _ int) error {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY, unix.NFTA_SET_ELEM_DATA:
		case unix.NFTA_SET_ELEM_USERDATA: // a comment
			return nil
		default:
			e.odd = true
			return nil
		}
		return attributes(value, func(inner int, value []byte, _ int) error {
			switch {
			case kind == unix.NFTA_SET_ELEM_KEY:
				e.key = value
			case inner == unix.NFTA_DATA_VALUE:
				e.data = value
			case inner != unix.NFTA_DATA_VERDICT:
				return errMalformed
			default:
				var code int32
				err := attributes(value, func(kind int, value []byte, _ int) error {
					switch {
					case kind == unix.NFTA_VERDICT_CODE && len(value) == 4:
						code = int32(binary.BigEndian.Uint32(value))
					case kind == unix.NFTA_VERDICT_CHAIN:
						e.chain = string(bytes.TrimRight(value, "\x00"))
					}
					return nil
				})
				e.odd = e.odd || code != int32(expr.VerdictGoto)
				return err
			}
			return nil
		})
	})
	return e, err
}

// service returns the service of an element, if a batch can write its key.
func (e element) service() (s Service, valid bool) {
	end := 12
	if len(e.key) > 16 {
		end = 24
	}
	if len(e.key) < end || e.key[1]|e.key[2]|e.key[3] != 0 {
		return s, false
	}
	address, valid := addrPort(e.key[4:end])
	return Service{Protocol(e.key[0]), address}, valid
}

// slot returns the slot of an element, if a batch can write its key.
func (e element) slot() (s Slot, valid bool) {
	if s.Service, valid = e.service(); !valid || len(e.key) != 16 && len(e.key) != 28 {
		return s, false
	}
	s.Number = int(binary.NativeEndian.Uint32(e.key[len(e.key)-4:]))
	return s, s.Number < MaxSlots
}

// endpoint returns the endpoint of an element, or the zero value if a batch would write something else.
func (e element) endpoint() (endpoint netip.AddrPort) {
	if !e.odd {
		endpoint, _ = addrPort(e.data)
	}
	return endpoint
}

// count returns the number of endpoints of a service, or absent if a batch would write something else.
func (e element) count() int {
	if e.odd {
		return absent
	}
	return countOf(e.chain)
}

// addrPort decodes an address and a port, if a batch can write them. The port has a register of its own.
func addrPort(registers []byte) (at netip.AddrPort, valid bool) {
	n := max(0, len(registers)-4)
	address, valid := netip.AddrFromSlice(registers[:n])
	if !valid || address.Is4In6() || registers[n+2]|registers[n+3] != 0 {
		return at, false
	}
	return netip.AddrPortFrom(address, binary.BigEndian.Uint16(registers[n:])), true
}

// countOf returns the number in the name of a chain that draws, or absent if it is another chain.
func countOf(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, drawPrefix))
	if n < 1 || n > MaxSlots || name != drawName(n) {
		return absent
	}
	return n
}
