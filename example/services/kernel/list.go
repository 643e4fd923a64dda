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
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Listing is what the tables have, or a part of that.
type Listing struct {
	// Counts has the number of endpoints of every service; it is 0 for those that reject, and -1 for those that
	// another program wrote and that go elsewhere.
	Counts map[Service]int
	// Slots has the endpoints of slots, and 0.0.0.0:0 for those that another program wrote and that go elsewhere.
	Slots map[Slot]netip.AddrPort
}

// elsewhere is that address. No batch has it as an endpoint.
var elsewhere = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)

// NewListing returns a listing of nothing.
func NewListing() Listing { return Listing{make(map[Service]int), make(map[Slot]netip.AddrPort)} }

// Get reads the elements that have the keys of a listing, in one look: no [Table.Commit] falls in between. The result has
// those that are there. A service is looked up where it is if its count is as in the listing: in the map of services, or if
// that is 0 among those that reject; if it is -1, in both. It takes some microseconds for each element, and more for one that
// is missing.
func (t *Table) Get(keys Listing) (l Listing, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l = NewListing()
	for _, single := range t.tables {
		slots := selected(keys.Slots, func(slot Slot, _ netip.AddrPort) bool { return single.has(slot.Service) })
		services := selected(keys.Counts, func(service Service, n int) bool { return single.has(service) && n != 0 })
		empty := selected(keys.Counts, func(service Service, n int) bool { return single.has(service) && n <= 0 })
		slotKey := func(m *messages, slot Slot) { m.key(slot.Service, slot.Number) }
		serviceKey := func(m *messages, service Service) { m.key(service, -1) }
		err = errors.Join(err,
			get(single, endpointsMap, slots, slotKey, func(slot Slot, e element) { l.Slots[slot] = e.endpoint() }),
			get(single, servicesMap, services, serviceKey, func(service Service, e element) { l.Counts[service] = e.count() }),
			get(single, emptySet, empty, serviceKey, func(service Service, e element) { l.addEmpty(service, e.odd) }))
	}
	return l, err
}

// has reports whether a service can be in the table.
func (t *single) has(service Service) bool {
	return service.isOf(t.family) && service.fits(netip.AddrPort{})
}

// selected returns the keys of some entries.
func selected[K comparable, V any](all map[K]V, wanted func(K, V) bool) (keys []K) {
	for k, v := range all {
		if wanted(k, v) {
			keys = append(keys, k)
		}
	}
	return keys
}

// addEmpty adds a service that rejects, unless it also has endpoints or a batch would write something else.
func (l Listing) addEmpty(service Service, odd bool) {
	if l.Counts[service] != 0 || odd {
		l.Counts[service] = absent
	} else {
		l.Counts[service] = 0
	}
}

// perMessage is how many elements are asked for at once. Their answers fit into a socket's buffer of the usual size.
const perMessage = 100

// get asks for elements of a set by their keys, and calls yield for each that is there.
func get[K any](t *single, set string, keys []K, appendKey func(*messages, K), yield func(K, element)) error {
	for len(keys) > 0 {
		part, answered := keys[:min(len(keys), perMessage)], 0
		err := t.elements(0, set, func(m *messages) {
			list := m.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
			for _, key := range part {
				element := m.nest(unix.NFTA_LIST_ELEM)
				appendKey(m, key)
				m.close(element)
			}
			m.close(list)
		}, func(e element) {
			if answered < len(part) {
				yield(part[answered], e)
			}
			answered++
		})
		switch {
		case answered > len(part):
			return fmt.Errorf("read %s of table %s: %w", set, t, errMalformed)
		case errors.Is(err, unix.ENOENT) && answered < len(part):
			answered++ // the kernel answers one key after another, and ends at the first that is missing
		case err != nil:
			return fmt.Errorf("read %s of table %s: %w", set, t, err)
		case answered == 0:
			return fmt.Errorf("read %s of table %s: the kernel did not answer", set, t)
		}
		keys = keys[answered:]
	}
	return nil
}

// Size returns how many elements the tables have for services. If they are more than those that are known, some are of
// other programs.
func (t *Table) Size() (n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, single := range t.tables {
		for _, set := range []string{endpointsMap, servicesMap, emptySet} {
			size, err := single.size(set)
			if err != nil {
				return 0, err
			}
			n += size
		}
	}
	return n, nil
}

// size returns how many elements a set has; none if it is missing.
func (t *single) size(set string) (n int, err error) {
	state, err := t.set(set)
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("read %s of table %s: %w", set, t, err)
	}
	n = state.count
	// The kernel does not count an element for all other keys.
	catchAll := func(m *messages, flags uint32) { m.uint32(unix.NFTA_SET_ELEM_FLAGS, flags) }
	err = get(t, set, []uint32{elementCatchAll}, catchAll, func(uint32, element) { n++ })
	return n, err
}

// elementCatchAll is the flag NFT_SET_ELEM_CATCHALL.
const elementCatchAll = 2

// List reads everything back, after [Table.Repair], and deletes elements that no [Batch] can write. Commits do not wait for
// it. It may have what they change as it was before, and then it may lack other elements, too: ask for them by [Table.Get].
func (t *Table) List() (Listing, error) {
	l, junk, err := t.dumpAll()
	if err == nil && len(junk.buf) > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		if err = t.commit(junk); errors.Is(err, unix.ENOENT) {
			err = nil // somebody has deleted a table
		}
	}
	return l, err
}

// dumpAll returns what the tables have, and a transaction without an end that deletes elements of others, or nothing.
func (t *Table) dumpAll() (l Listing, junk *messages, err error) {
	l, junk = NewListing(), &messages{}
	if _, err := t.Repair(); err != nil {
		return l, junk, err
	}
	t.dumpsMu.Lock()
	defer t.dumpsMu.Unlock()
	for _, of := range t.tables {
		beside := &single{family: of.family, socket: &t.dumps, table: of.table}
		empty := make(map[Service]bool)
		err = errors.Join(err,
			dump(beside, junk, endpointsMap, l.Slots, func(e element) (Slot, netip.AddrPort, bool) {
				slot, valid := e.slot()
				return slot, e.endpoint(), valid
			}),
			dump(beside, junk, servicesMap, l.Counts, func(e element) (Service, int, bool) {
				service, valid := e.service()
				return service, e.count(), valid
			}),
			dump(beside, junk, emptySet, empty, func(e element) (Service, bool, bool) {
				service, valid := e.service()
				return service, e.odd, valid
			}))
		for service, odd := range empty {
			l.addEmpty(service, odd)
		}
	}
	return l, junk, err
}

// attempts is how often a set is read until all its elements were seen.
const attempts = 10

// dump adds the elements of a set to a map. While the kernel moves them to a table of another size, as it does for some time
// after many were added or deleted, and while others commit, it skips some: so the set is read until all were seen. The
// deletion of elements whose entry is not valid is added to a transaction.
func dump[K comparable, V any](
	t *single, junk *messages, set string, all map[K]V, entry func(element) (K, V, bool),
) error {
	before := len(all)
	for i := range attempts {
		time.Sleep(time.Duration(i) * 10 * time.Millisecond) // on a busy machine the kernel takes its time, too
		var others [][]byte
		counted := 0 // of others
		state, err := t.set(set)
		if err == nil {
			err = t.elements(unix.NLM_F_DUMP, set, nil, func(e element) {
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
		switch {
		case errors.Is(err, unix.ENOENT):
			return nil // the set is gone, and everything that was in it
		case err != nil:
			return fmt.Errorf("read %s of table %s: %w", set, t, err)
		case len(all)-before+counted >= state.count:
			junk.deletion(t, set, others)
			return nil
		}
	}
	return fmt.Errorf("%s of table %s changes all the time", set, t)
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
	err = t.ask(unix.NFT_MSG_GETSET, 0, unix.NFTA_SET_NAME, name, nil, func(a answer) error {
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

// elements calls yield for the elements of a set that a request names: for all if the request is nil and the flags are those
// of a dump.
func (t *single) elements(flags int, set string, request func(*messages), yield func(element)) error {
	return t.ask(unix.NFT_MSG_GETSETELEM, flags, unix.NFTA_SET_ELEM_LIST_SET, set, request, func(a answer) error {
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

// ask sends a request about the table, or what it has under a name, and calls yield for each answer with data. more appends
// what else the request has; nil is nothing.
func (t *single) ask(kind, flags, nameKind int, name string, more func(*messages), yield func(answer) error) error {
	var m messages
	message := m.begin(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags, byte(t.TableFamily), 0)
	// All requests name the table by the same attribute.
	m.text(unix.NFTA_TABLE_NAME, t.table.Name)
	if name != "" {
		m.text(nameKind, name)
	}
	if more != nil {
		more(&m)
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

// endpoint returns the endpoint of an element, or elsewhere if a batch would write something else.
func (e element) endpoint() netip.AddrPort {
	if endpoint, valid := addrPort(e.data); valid && !e.odd {
		return endpoint
	}
	return elsewhere
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
