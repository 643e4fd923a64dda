// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Batch collects changes, which [Table.Commit] makes in one transaction. Every change says how an element shall
// be, whatever it is now, and the last one for an element counts. So a change may be repeated, as after an error.
type Batch struct {
	// Slots has the endpoints of slots. The zero value makes a slot empty.
	Slots map[Slot]netip.AddrPort
	// Counts has the numbers of endpoints of services. A negative one makes a service unknown.
	Counts map[Service]int
}

// absent is the number of endpoints of a service that is unknown.
const absent = -1

// NewBatch returns a batch without changes.
func NewBatch() *Batch {
	return &Batch{make(map[Slot]netip.AddrPort), make(map[Service]int)}
}

// SetSlot puts an endpoint into a slot.
func (b *Batch) SetSlot(slot Slot, endpoint netip.AddrPort) { b.Slots[slot] = endpoint }

// DeleteSlot makes a slot empty.
func (b *Batch) DeleteSlot(slot Slot) { b.Slots[slot] = netip.AddrPort{} }

// SetCount says how many endpoints a service has. New flows go to slots 0 to n-1; with n = 0 they are rejected.
func (b *Batch) SetCount(service Service, n int) { b.Counts[service] = n }

// DeleteService makes a service unknown: its flows are not translated and not rejected. Its slots remain, unless
// they are deleted too. A service with an address that no table can have is unknown already.
func (b *Batch) DeleteService(service Service) {
	if service.fits(netip.AddrPort{}) {
		b.Counts[service] = absent
	}
}

// ErrTooLarge is returned for a batch that exceeds the socket's buffer. It had no effect; smaller ones may have.
var ErrTooLarge = errors.New("the batch is larger than the buffer of the socket")

// ElementError says which element the kernel refused. Its batch had no effect.
type ElementError struct {
	Service Service
	// Slot is the number of the slot, or -1 if the service itself was refused.
	Slot int
	Err  error
}

func (e *ElementError) Error() string {
	if e.Slot < 0 {
		return fmt.Sprintf("the kernel refuses service %s: %v", e.Service, e.Err)
	}
	return fmt.Sprintf("the kernel refuses %s: %v", Slot{e.Service, e.Slot}, e.Err)
}

func (e *ElementError) Unwrap() error { return e.Err }

// Commit makes the changes of a batch, all or none, and empties the batch. Packets see all changes at once. An error that
// is about elements has an [*ElementError] for each list of elements with a refused one.
func (t *Table) Commit(b *Batch) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer clear(b.Slots)
	defer clear(b.Counts)
	if len(b.Slots)+len(b.Counts) == 0 {
		return nil
	}
	if err := b.check(); err != nil {
		return err
	}
	for _, single := range t.tables {
		if err := single.ensure(false, drawn(single.family, b.Counts)); err != nil {
			return err
		}
	}
	err := t.commit(b.encode(t.tables[0].table.Name))
	if err != nil {
		// Perhaps another program has deleted a chain: look again before the next commit.
		for _, single := range t.tables {
			clear(single.written)
		}
	}
	return err
}

// drawn returns the numbers of endpoints that services of a family have.
func drawn(f family, services map[Service]int) map[int]bool {
	counts := make(map[int]bool)
	for service, n := range services {
		if n > 0 && service.isOf(f) {
			counts[n] = true
		}
	}
	return counts
}

// ErrAddress is in the error of an element that no table can have.
var ErrAddress = errors.New("the address is not plain IPv4 or IPv6, or not of the family of the service")

// check returns an error for each service that cannot be encoded.
func (b *Batch) check() error {
	bad := make(map[Service]int)
	for slot, endpoint := range b.Slots {
		if slot.fits(endpoint) {
			continue
		}
		if first, has := bad[slot.Service]; !has || slot.Number < first {
			bad[slot.Service] = slot.Number
		}
	}
	for service := range b.Counts {
		if _, has := bad[service]; !has && !service.fits(netip.AddrPort{}) {
			bad[service] = -1
		}
	}
	var refused []error
	for service, slot := range bad {
		refused = append(refused, &ElementError{service, slot, ErrAddress})
	}
	return errors.Join(refused...)
}

// encode returns the transaction, without its end. What a map may have is deleted before it is added: the kernel
// refuses another value for a key.
func (b *Batch) encode(table string) *messages {
	m := &messages{buf: make([]byte, 0, 256+120*len(b.Slots)+170*len(b.Counts))}
	m.end(m.begin(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES))
	slotKey := func(slot Slot, _ netip.AddrPort) { m.key(slot.Service, slot.Number) }
	element := func(slot Slot, endpoint netip.AddrPort) { slotKey(slot, endpoint); m.endpoint(endpoint) }
	serviceKey := func(service Service, _ int) { m.key(service, -1) }
	verdict := func(service Service, n int) { serviceKey(service, n); m.gotoChain(drawName(n)) }
	for _, f := range families {
		slots := func(slot Slot, _ netip.AddrPort) bool { return slot.isOf(f) }
		valid := func(slot Slot, endpoint netip.AddrPort) bool { return slot.isOf(f) && endpoint.IsValid() }
		elements(m, f, table, endpointsMap, messageDestroyElements, b.Slots, slots, slotKey)
		elements(m, f, table, endpointsMap, unix.NFT_MSG_NEWSETELEM, b.Slots, valid, element)

		services := func(service Service, _ int) bool { return service.isOf(f) }
		drawn := func(service Service, n int) bool { return service.isOf(f) && n > 0 }
		rejected := func(service Service, n int) bool { return service.isOf(f) && n == 0 }
		elements(m, f, table, servicesMap, messageDestroyElements, b.Counts, services, serviceKey)
		elements(m, f, table, servicesMap, unix.NFT_MSG_NEWSETELEM, b.Counts, drawn, verdict)
		elements(m, f, table, emptySet, messageDestroyElements, b.Counts, services, serviceKey)
		elements(m, f, table, emptySet, unix.NFT_MSG_NEWSETELEM, b.Counts, rejected, serviceKey)
	}
	return m
}

// messageDestroyElements is NFT_MSG_DESTROYSETELEM: it deletes elements, and accepts that they are missing.
const messageDestroyElements = 30

// elements appends messages that change those elements of a set that are wanted.
func elements[K comparable, V any](
	m *messages, f family, table, set string, kind int, all map[K]V, wanted func(K, V) bool, appendElement func(K, V),
) {
	message, list := 0, 0
	end := func() {
		if list > 0 {
			m.close(list)
			m.end(message)
		}
		list = 0
	}
	for k, v := range all {
		if !wanted(k, v) {
			continue
		}
		if list == 0 {
			message = m.begin(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_CREATE, byte(f.TableFamily), 0)
			m.text(unix.NFTA_SET_ELEM_LIST_TABLE, table)
			m.text(unix.NFTA_SET_ELEM_LIST_SET, set)
			list = m.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		}
		element := m.nest(unix.NFTA_LIST_ELEM)
		appendElement(k, v)
		if m.close(element); len(m.buf)-list > maxAttribute {
			end()
		}
	}
	end()
}

// key appends the key of a service, or of its slot if that is not negative. Each part has a register of its own,
// that is, four bytes.
func (m *messages) key(service Service, slot int) {
	value := appendAddrPort(append(make([]byte, 0, 28), byte(service.Protocol), 0, 0, 0), service.Address)
	if slot >= 0 {
		// The kernel draws a number of the machine's byte order.
		value = binary.NativeEndian.AppendUint32(value, uint32(slot))
	}
	m.elementKey(value)
}

func (m *messages) elementKey(value []byte) {
	key := m.nest(unix.NFTA_SET_ELEM_KEY)
	m.bytes(unix.NFTA_DATA_VALUE, value)
	m.close(key)
}

// appendAddrPort appends the address, which has registers of its own, and the port.
func appendAddrPort(buf []byte, at netip.AddrPort) []byte {
	buf, _ = at.Addr().AppendBinary(buf) // it returns no error
	return append(binary.BigEndian.AppendUint16(buf, at.Port()), 0, 0)
}

func (m *messages) endpoint(endpoint netip.AddrPort) {
	data := m.nest(unix.NFTA_SET_ELEM_DATA)
	m.bytes(unix.NFTA_DATA_VALUE, appendAddrPort(make([]byte, 0, 20), endpoint))
	m.close(data)
}

func (m *messages) gotoChain(name string) {
	data, verdict := m.nest(unix.NFTA_SET_ELEM_DATA), m.nest(unix.NFTA_DATA_VERDICT)
	code := int32(expr.VerdictGoto)
	m.uint32(unix.NFTA_VERDICT_CODE, uint32(code))
	m.text(unix.NFTA_VERDICT_CHAIN, name)
	m.close(verdict)
	m.close(data)
}

// commit completes a transaction, sends it, and returns why it had no effect.
func (t *Table) commit(m *messages) error {
	// The kernel answers the end when it has committed. It answers other messages only to refuse them.
	m.end(m.begin(unix.NFNL_MSG_BATCH_END, unix.NLM_F_ACK, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES))
	if err := t.socket.send(m); errors.Is(err, unix.EMSGSIZE) {
		return fmt.Errorf("%w: it has %d bytes", ErrTooLarge, len(m.buf))
	} else if err != nil {
		return err
	}
	committed := false
	var refused []error
	lost := t.socket.receive(func(a answer) error {
		if a.kind != unix.NLMSG_ERROR || int(a.number) >= len(m.buf) {
			return nil
		}
		kind := binary.NativeEndian.Uint16(m.buf[a.number+4:])
		f := a.failure()
		switch {
		case f.err == nil && kind == unix.NFNL_MSG_BATCH_END:
			committed = true
		case f.err != nil:
			refused = append(refused, m.blame(int(a.number), f))
		}
		return nil
	})
	switch {
	case len(refused) > 0:
		return errors.Join(refused...)
	case lost != nil:
		// Only errors are so many that they can be lost.
		return lost
	case !committed:
		return errors.New("the kernel did not answer a transaction")
	}
	return nil
}

// blame returns the error for the message at an offset, with the element that it is about.
func (m *messages) blame(message int, f failure) error {
	// The kernel's offset is that of an element, or of the name of a table or set.
	if at := message + f.at; f.at > 0 {
		size := int(binary.NativeEndian.Uint16(m.buf[at:]))
		if e, err := decodeElement(m.buf[at+unix.SizeofNlAttr : at+size]); err == nil {
			if slot, valid := e.slot(); valid {
				return &ElementError{slot.Service, slot.Number, f.err}
			}
			if service, valid := e.service(); valid {
				return &ElementError{service, -1, f.err}
			}
		}
	}
	return fmt.Errorf("the kernel refuses a transaction: %w", f.err)
}
