// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kerneltest

// What ip(8) can say of addresses and routes, for tests in which another program uses it. The link br0 is up there, and
// has the networks 10.0.0.0/24 and fd00::/64.

// AddressKinds are arguments of "ip addr add ADDRESS dev LINK"; "peer" stands for a peer.
var AddressKinds = []string{
	"valid_lft 100 preferred_lft 100", "preferred_lft 100", "preferred_lft 0", "noprefixroute", "home", "mngtmpaddr", "metric 77",
	"scope link", "scope host", "broadcast 10.0.0.77", "peer", "autojoin", "valid_lft 100 preferred_lft 0 noprefixroute",
}

// Nexthops are arguments of ip(8) that make the nexthop objects of RoutesTo.
var Nexthops = []string{
	"nexthop add id 7 via 10.0.0.9 dev br0", "nexthop add id 8 group 7", "nexthop add id 9 blackhole",
	"nexthop add id 17 via fd00::9 dev br0", "nexthop add id 18 group 17", "-6 nexthop add id 19 blackhole",
}

var ipv4Kinds = []string{
	"nhid 7", "nhid 7 metric 20", "nhid 8 proto bgp", "nhid 9", "nhid 7 proto 83",
	"via inet6 fe80::5 dev br0", "via inet6 fe80::5 dev br0 proto 83",
	"via 10.0.0.2 dev br0 proto 83 mtu lock 1300", "via 10.0.0.2 dev br0 proto 83 mtu 1300",
	"via 10.0.0.2 dev br0 proto 83 advmss 1000 window 2000 rto_min 5ms initcwnd 3 initrwnd 4 quickack 1",
	"via 10.0.0.2 dev br0 proto 83 congctl reno", "via 10.0.0.2 dev br0 proto 83 hoplimit 9 features ecn",
	"via 10.0.0.2 dev br0 proto 83 onlink", "via 10.0.0.2 dev br0 proto 83 src 10.0.0.1", "via 10.0.0.2 dev br0 proto 83 realm 5",
	"encap ip id 5 dst 192.0.2.1 via 10.0.0.2 dev br0 proto 83",
	"proto 83 nexthop via 10.0.0.2 dev br0 weight 2 nexthop via 10.0.0.3 dev br0",
	"proto 83 metric 7 nexthop via 10.0.0.2 dev br0 nexthop dev br1",
	"via 10.0.0.2 dev br0 proto 83 tos 0x10", "dev br0 proto 83 scope host", "dev br0 proto 83 scope global",
	"via 10.0.0.2 dev br0 proto static", "via 10.0.0.2 dev br0 proto 83 metric 4294967295",
}

var ipv6Kinds = []string{
	"nhid 17", "nhid 18 metric 20 proto bgp", "nhid 19", "via fd00::2 dev br0 proto 83 expires 100",
	"via fd00::2 dev br0 proto 83 pref high", "via fd00::2 dev br0 proto 83 mtu lock 1300", "via fd00::2 dev br0 proto 83 hoplimit 9",
	"from fd09::/64 via fd00::2 dev br0 proto 83", "encap seg6 mode encap segs fd00::9 via fd00::2 dev br0 proto 83",
	"proto 83 nexthop via fd00::2 dev br0 weight 2 nexthop via fd00::3 dev br0", "via fd00::2 dev br0 proto 83 onlink",
	"via fd00::2 dev br0 proto 83 src fd00::1", "dev br0 proto 83 metric 20", "via fd00::2 dev br0 proto static", "dev br0 proto 83",
}

// RoutesTo returns arguments of "ip route add" for routes of all kinds to two networks.
func RoutesTo(ipv4, ipv6 string) (all []string) {
	for _, kind := range ipv4Kinds {
		all = append(all, ipv4+" "+kind)
	}
	for _, kind := range ipv6Kinds {
		all = append(all, ipv6+" "+kind)
	}
	for _, kind := range []string{"blackhole", "unreachable", "prohibit", "throw"} {
		all = append(all, kind+" "+ipv4, kind+" "+ipv4+" metric 9 proto 83", kind+" "+ipv6, kind+" "+ipv6+" metric 9 proto 83")
	}
	return all
}
