// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Flow names all flows to a service that one endpoint answers.
type Flow struct {
	Service
	// Endpoint is the address of the service itself for flows that are not translated. The zero value stands for any.
	Endpoint netip.AddrPort
}

// String returns the flow as in udp/10.96.0.1:53 to 10.2.0.11:53.
func (f Flow) String() string {
	if !f.Endpoint.IsValid() {
		return f.Service.String()
	}
	return fmt.Sprintf("%s to %s", f.Service, f.Endpoint)
}

// fewFlows is up to how many arguments of IPv4 the kernel searches by itself. With 100,000 flows, a search takes 22 ms or
// more, and 370 ms if it sends them all; without flows, 6 us and 6 ms.
const fewFlows = 8

// DeleteFlows makes conntrack forget flows, so that their next packets are like those of new ones. Call it after
// the commit that removed the endpoint, or gave a service its first one: until then, packets renew the flows. Connections of
// TCP that were answered stay: also an endpoint that gets no new ones serves those that it has.
func (t *Table) DeleteFlows(flows ...Flow) error {
	var failed error
	for _, f := range families {
		of := make(map[Flow]bool)
		for _, flow := range flows {
			if flow.isOf(f) {
				of[flow] = true
			}
		}
		switch {
		case len(of) > fewFlows || len(of) > 0 && f.TableFamily == nftables.TableFamilyIPv6:
			// The kernel's own search for an address of IPv6 finds the flows of all others: Linux 6.18 takes what differs for
			// what is equal.
			failed = errors.Join(failed, t.search(f, func(flow Flow) bool { return of[flow] || of[Flow{Service: flow.Service}] }))
		default:
			for flow := range of {
				if err := t.deleteFlow(flow); err != nil {
					failed = errors.Join(failed, fmt.Errorf("delete flows of %s: %w", flow, err))
				}
			}
		}
	}
	return failed
}

// DeleteFlowsIf is [Table.DeleteFlows] for all flows of the node for which stale returns true, also those to addresses
// that are of no service.
func (t *Table) DeleteFlowsIf(stale func(Flow) bool) error {
	var failed error
	for _, f := range families {
		failed = errors.Join(failed, t.search(f, stale))
	}
	return failed
}

// search deletes flows of a family.
func (t *Table) search(f family, stale func(Flow) bool) error {
	of := netlink.InetFamily(f.TableFamily)
	if _, err := t.conntrack.ConntrackDeleteFilters(netlink.ConntrackTable, of, flowFilter(stale)); err != nil {
		return fmt.Errorf("delete flows: %w", err)
	}
	return nil
}

func (t *Table) deleteFlow(flow Flow) error {
	if !flow.fits(flow.Endpoint) {
		return nil // no table can have such a service, so it has no flows
	}
	t.flowsMu.Lock()
	defer t.flowsMu.Unlock()
	if err := t.flows.send(flow.deletion()); err != nil {
		return err
	}
	return t.flows.receive(func(a answer) error { return a.failure().err })
}

// flowFilter is a filter for flows.
type flowFilter func(Flow) bool

// MatchConntrackFlow implements [netlink.CustomConntrackFilter].
func (stale flowFilter) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	// SYN_SENT2, after which both sides have sent the first packet, is an answer.
	if tcp, ok := flow.ProtoInfo.(*netlink.ProtoInfoTCP); ok && tcp.State != nl.TCP_CONNTRACK_SYN_SENT {
		return false
	}
	to, from := flow.Forward, flow.Reverse
	return stale(Flow{Service{Protocol(to.Protocol), addrPortOf(to.DstIP, to.DstPort)}, addrPortOf(from.SrcIP, from.SrcPort)})
}

func addrPortOf(ip net.IP, port uint16) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), port)
}

// Constants of conntrack's messages that golang.org/x/sys/unix does not have.
const (
	messageDeleteFlows = 2 // IPCTNL_MSG_CT_DELETE

	attrOriginal = 1  // CTA_TUPLE_ORIG
	attrReply    = 2  // CTA_TUPLE_REPLY
	attrFilter   = 25 // CTA_FILTER

	attrStatus     = 3      // CTA_STATUS
	attrStatusMask = 26     // CTA_STATUS_MASK
	answered       = 1 << 1 // IPS_SEEN_REPLY

	attrTupleIP    = 1 // CTA_TUPLE_IP
	attrTupleProto = 2 // CTA_TUPLE_PROTO
	attrProtocol   = 1 // CTA_PROTO_NUM

	attrOriginalFlags = 1 // CTA_FILTER_ORIG_FLAGS
	attrReplyFlags    = 2 // CTA_FILTER_REPLY_FLAGS
	flagProtocol      = 1 << 3
)

// side is one end of a direction of a flow: its attributes, and the flags that compare them.
type side struct {
	address int // CTA_IP_V4_SRC, CTA_IP_V4_DST
	port    int // CTA_PROTO_SRC_PORT, CTA_PROTO_DST_PORT
	flags   uint32
}

var (
	source      = side{1, 2, 1<<0 | flagProtocol | 1<<4}
	destination = side{2, 3, 1<<1 | flagProtocol | 1<<5}
)

// deletion returns a message that deletes the flows, of IPv4. It may match none.
func (f Flow) deletion() *messages {
	m := &messages{}
	message := m.begin(unix.NFNL_SUBSYS_CTNETLINK<<8|messageDeleteFlows, unix.NLM_F_ACK, unix.NFPROTO_IPV4, 0)
	m.tuple(attrOriginal, destination, f.Protocol, f.Address)
	if f.Endpoint.IsValid() {
		m.tuple(attrReply, source, f.Protocol, f.Endpoint)
	}
	filter := m.nest(attrFilter)
	m.bytes(attrOriginalFlags, binary.NativeEndian.AppendUint32(nil, destination.flags))
	if f.Endpoint.IsValid() {
		m.bytes(attrReplyFlags, binary.NativeEndian.AppendUint32(nil, source.flags))
	}
	m.close(filter)
	if f.Protocol == TCP {
		m.uint32(attrStatus, 0)
		m.uint32(attrStatusMask, answered)
	}
	m.end(message)
	return m
}

// tuple appends one side of a direction.
func (m *messages) tuple(kind int, s side, protocol Protocol, address netip.AddrPort) {
	tuple, ip := m.nest(kind), m.nest(attrTupleIP)
	m.bytes(s.address, address.Addr().AsSlice())
	m.close(ip)
	proto := m.nest(attrTupleProto)
	m.bytes(attrProtocol, []byte{byte(protocol)})
	m.bytes(s.port, binary.BigEndian.AppendUint16(nil, address.Port()))
	m.close(proto)
	m.close(tuple)
}
