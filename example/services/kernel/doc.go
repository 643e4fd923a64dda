// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package kernel keeps the services of a node in two tables of nftables, and deletes flows that conntrack would still send
// to endpoints that are gone. It knows no reconcilers: it writes what it is told and reads back what is there. On other
// systems than Linux it is empty.
//
// # Layout
//
// A table has two maps and a set, which hold all services, and chains, whose number does not depend on that of services:
//
//	map endpoints { proto . address . port . slot -> address . port }   the endpoints, in slots 0 to n-1
//	map services  { proto . address . port -> goto draw-n }             n is the number of endpoints
//	set empty     { proto . address . port }                            services without endpoints
//
// One more set, same, is constant: the rule that masquerades looks up in it whether two addresses are equal.
//
// A chain draw-n draws one of n slots, looks up its endpoint, and translates the destination to it. So a change of an
// endpoint, or of a service, changes a few elements, and no rule: that takes microseconds, whatever the number of services.
//
// A commit may fall between draw and look-up. If the drawn slot is gone then, a second rule takes slot 0, which every
// service with an endpoint has. For that, slots have no gaps: when slot k is removed, the last one moves there, in the same
// [Batch]. From version 6.17 on, the kernel evaluates a packet with one generation of the elements of a map, so that a
// replaced element is never missing.
//
// # Reading
//
// The kernel takes seconds to list 250,000 elements, and leaves some out while it enlarges a map or a commit falls in
// between. So [Table.Get] asks for those that a caller knows, a few at a time. If they are all there, and [Table.Size] says
// that there are no more, that is all. Otherwise [Table.List] lists everything, on a socket of its own.
//
// # Families
//
// There are two tables of one name and one layout, of the families ip and ip6; one transaction changes both. One of family
// inet would need maps and chains of its own for IPv6, too, since a key has one width, and every rule would have to check
// the version of the packet.
package kernel
