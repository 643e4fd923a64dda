// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// object is an address or a route as the kernel's message has it. The types of the netlink library lack attributes
// (the nexthop object and the expiry of a route, the origin of an address): an object of the library that equals a
// wanted one may be another, and a deletion of it may name none, or another.
type object struct {
	// header is the struct at the beginning of the message.
	header []byte
	attrs  []attribute
}

type attribute struct {
	kind, flags uint16 // together the type in the message
	value       []byte
}

// messages are the messages about a kind of object.
type messages struct {
	what            string
	fresh, del, get int // the types of the messages
	header          func(family uint8) nl.NetlinkRequestData

	// names has a description of each attribute that this program knows.
	names map[uint16]string
}

// list returns the objects of both address families.
func (m *messages) list() (all []object, err error) {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		some, err := m.listFamily(family)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (m *messages) listFamily(family uint8) ([]object, error) {
	header := m.header(family)
	found, err := dump(m.what, func() ([][]byte, error) {
		request := nl.NewNetlinkRequest(m.get, unix.NLM_F_DUMP)
		request.AddData(header)
		return request.Execute(unix.NETLINK_ROUTE, uint16(m.fresh))
	})
	if err != nil {
		return nil, err
	}
	all := make([]object, 0, len(found))
	for _, message := range found {
		if len(message) < header.Len() || message[0] != family {
			continue // a kernel without IPv6 answers with all families
		}
		o, err := m.read(message)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", m.what, err)
		}
		all = append(all, o)
	}
	return all, nil
}

// read decodes a message.
func (m *messages) read(message []byte) (o object, err error) {
	header := m.header(unix.AF_UNSPEC).Len()
	if len(message) < header {
		return o, unix.EBADMSG
	}
	attrs, err := nl.ParseRouteAttr(message[header:])
	o = object{header: message[:header], attrs: make([]attribute, len(attrs))}
	for i, attr := range attrs {
		kind := attr.Attr.Type & nl.NLA_TYPE_MASK
		o.attrs[i] = attribute{kind, attr.Attr.Type &^ kind, attr.Value}
	}
	return o, err
}

// delete asks the kernel to delete exactly this object: the request says all that the kernel told of it, except the
// attributes of the kinds without.
func (m *messages) delete(o object, without ...uint16) error {
	request := nl.NewNetlinkRequest(m.del, unix.NLM_F_ACK)
	request.AddRawData(o.header)
	for _, attr := range o.attrs {
		if !slices.Contains(without, attr.kind) {
			request.AddRawData(nl.NewRtAttr(int(attr.kind|attr.flags), attr.value).Serialize())
		}
	}
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// extra describes the attributes that are not as usual says. One that this program does not know is left out: a
// newer kernel may report it of every object.
func (m *messages) extra(o object, usual func(kind uint16, value []byte) bool) (all []string) {
	for _, attr := range o.attrs {
		if name := m.names[attr.kind]; name != "" && !usual(attr.kind, attr.value) {
			all = append(all, name)
		}
	}
	return all
}

// attr returns the value of an attribute, or nil.
func (o object) attr(kind uint16) []byte {
	for _, attr := range o.attrs {
		if attr.kind == kind {
			return attr.value
		}
	}
	return nil
}

// number returns the value of an attribute of one or four bytes, or 0.
func (o object) number(kind uint16) uint32 {
	switch raw := o.attr(kind); len(raw) {
	case 1:
		return uint32(raw[0])
	case 4:
		return binary.NativeEndian.Uint32(raw)
	}
	return 0
}

// ip returns the value of an attribute that is an address, or the zero Addr.
func (o object) ip(kind uint16) netip.Addr {
	ip, _ := netip.AddrFromSlice(o.attr(kind))
	return ip
}
