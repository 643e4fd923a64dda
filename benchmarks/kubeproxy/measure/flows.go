// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const maxFlows = 1 << 20

// firstClient and server are in none of the ranges of the workload.
var (
	firstClient = binary.BigEndian.Uint32([]byte{172, 16, 0, 0}) // 172.16.0.0/12
	server      = net.IPv4(192, 168, 0, 1).To4()
)

// makeFlows puts flows of UDP, each of a client of its own, into the conntrack of the thread's network namespace.
func makeFlows(n int) error {
	if n == 0 {
		return nil
	}
	conntrack, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open a socket of conntrack: %w", err)
	}
	defer conntrack.Close()
	for i := range n {
		client := addrOf(firstClient, int32(i)).AsSlice()
		flow := &netlink.ConntrackFlow{
			FamilyType: unix.AF_INET,
			Forward:    netlink.IPTuple{Protocol: unix.IPPROTO_UDP, SrcIP: client, SrcPort: 1024, DstIP: server, DstPort: 53},
			Reverse:    netlink.IPTuple{Protocol: unix.IPPROTO_UDP, SrcIP: server, SrcPort: 53, DstIP: client, DstPort: 1024},
			TimeOut:    24 * 60 * 60, // seconds
		}
		if err := conntrack.ConntrackCreate(netlink.ConntrackTable, unix.AF_INET, flow); err != nil {
			return fmt.Errorf("make flow %d: %w", i, err)
		}
	}
	return nil
}
