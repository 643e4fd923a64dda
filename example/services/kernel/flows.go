// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Flow is what conntrack remembers of connections to a service: the endpoint that answers them.
type Flow struct {
	Service
	// Endpoint is the address of the service itself if the flow was not translated.
	Endpoint netip.AddrPort
}

// DeleteFlows makes conntrack forget flows, so that their next packets are like those of new ones. The kernel
// searches all its flows once for each argument.
func (t *Table) DeleteFlows(flows ...Flow) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, flow := range flows {
		var m messages
		message := m.begin(unix.NFNL_SUBSYS_CTNETLINK<<8|messageDeleteFlows, unix.NLM_F_ACK, unix.NFPROTO_IPV4, 0)
		m.tuple(tupleOriginal, 0, flow.Protocol, flow.Address)
		m.tuple(tupleReply, 1, flow.Protocol, flow.Endpoint)
		filter := m.nest(filterAttribute)
		m.bytes(filterOrigFlags, binary.NativeEndian.AppendUint32(nil, filterDestination|filterProtocol|filterDestPort))
		m.bytes(filterReplyFlags, binary.NativeEndian.AppendUint32(nil, filterSource|filterProtocol|filterSourcePort))
		m.close(filter)
		m.end(message)
		if err := t.socket.send(&m); err != nil {
			return err
		}
		if err := t.socket.receive(func(a answer) error { return a.failure().err }); err != nil {
			return fmt.Errorf("delete the flows of %s to %s: %w", flow.Service, flow.Endpoint, err)
		}
	}
	return nil
}

// tuple appends one direction of a flow: where it goes to, or with side 1 where it comes from...
func (m *messages) tuple(kind, side int, protocol Protocol, address netip.AddrPort) {
	tuple := m.nest(kind)
	ip := m.nest(1)
	addr := address.Addr().As4()
	m.bytes(2-side, addr[:])
	m.close(ip)
	proto := m.nest(2)
	m.bytes(1, []byte{byte(protocol)})
	m.bytes(3-side, binary.BigEndian.AppendUint16(nil, address.Port()))
	m.close(proto)
	m.close(tuple)
}

const (
	messageDeleteFlows = 2
	tupleOriginal      = 1
	tupleReply         = 2
)
