// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

// Package measure measures programs that make the nftables of a kernel equal to services: how long the kernel waits
// for them, and what they take. It knows no such program: each is a Contender, and all get the same input and are
// watched in the same way.
//
// # How the kernel is watched
//
// Every change of the workload replaces an endpoint by one with an address that no earlier one had. So whatever a
// contender's tables look like, a change has reached the kernel when the kernel says that it has a new element with
// that address, and a Layout that decodes one element is all that the package has to know of a contender.
//
// The kernel says it in a message to the multicast group of nftables, which it sends after the commit of a
// transaction, at the end of the system call that committed it. A time that is measured so is never too early; it is
// too late by the time that the kernel takes to write the messages of the transaction (up to a microsecond an element)
// and to wake the reader. That somebody listens costs a writer some 1.2 us for one element, of 8 us (Linux 6.18, a
// lasting socket). Polling would need the key of the element, so the contender's whole layout, would round each time up
// to the next poll, and would take CPU time from the contender between changes.
//
// That the messages tell the truth is checked: after each phase the package lists all sets of the kernel by netlink,
// and fails unless exactly the endpoints and services of the workload are there, each once. That an endpoint is one of
// its own service is not checked. A message that the kernel drops, as it does when the reader is slow, fails the run as
// well.
//
// # What the figures of a contender include
//
// A contender runs in the process that measures. Its CPU time has that of making the input, a few microseconds a
// change, and of Go's scheduler, which wakes up for each change, 0.1 to 0.2 ms; the thread that watches the kernel is
// subtracted. What the kernel does after a commit in threads of its own, to free
// what was replaced, is in no figures. Its memory has the workload, 8 bytes for each endpoint, and the times of those
// that wait, 8 bytes each.
package measure

import (
	"context"
	"net/netip"
)

// Contender is a program that makes the kernel's nftables, in the network namespace of this process, equal to the
// services that it is told. All methods are called from one goroutine.
type Contender interface {
	// Start starts the contender, which knows no service yet. The kernel may have what an earlier process made.
	Start(ctx context.Context) error
	// Apply tells the contender of services that are new or changed. No call has the same service twice. It does not
	// wait for the kernel: its time counts as that of the contender.
	Apply(services []Service) error
	// Complete tells the contender that it now knows all services, which it has to know before it may delete what it
	// finds in the kernel. It returns once the contender believes that the kernel has them all. It is called once.
	Complete(ctx context.Context) error
	// Stop stops the contender, and leaves the kernel as it is.
	Stop() error
	// Layout tells how to read the contender's tables.
	Layout() Layout
}

// Service is a service with all its endpoints. No two services have the same name, address or endpoint.
type Service struct {
	Name string
	Addr netip.Addr // of IPv4
	Port uint16     // of TCP
	// Endpoints are ready. The contender may keep the slice.
	Endpoints []netip.AddrPort
}

// Layout decodes the elements of a contender's sets. The functions are called for all elements of all sets and all rules,
// while the kernel is being written to.
type Layout struct {
	// Endpoint returns the endpoint to which the element sends connections, if it is such an element.
	Endpoint func(Element) (netip.AddrPort, bool)
	// Service returns the address and port to which it applies a service's endpoints, if the element does that. It is
	// the element without which the service is not there. One that makes the service reject is not: all have endpoints.
	Service func(Element) (netip.AddrPort, bool)
	// Rule returns the endpoint to which a rule sends connections, if it names one by itself, from the values that the rule
	// loads. nil: no rule does.
	Rule func(values [][]byte) (netip.AddrPort, bool)
}

// rule is Rule for the payload of a message about a rule.
func (l Layout) rule(payload []byte) (netip.AddrPort, bool) {
	if l.Rule == nil {
		return netip.AddrPort{}, false
	}
	return l.Rule(immediates(payload))
}

// Element is an element of a set of nftables. Its fields are valid until the call that received it returns.
type Element struct {
	Table, Set []byte
	Key        []byte
	Data       []byte // nil unless the element maps its key to data
	Verdict    []byte // the chain to which a verdict jumps, nil if there is none
}

// AddrPort decodes an IPv4 address and a port that nftables concatenated, each padded to four bytes, at an offset of a
// key or of data. It returns false if b is too short.
func AddrPort(b []byte, addr, port int) (netip.AddrPort, bool) {
	if addr+4 > len(b) || port+2 > len(b) {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[addr:addr+4])), uint16(b[port])<<8|uint16(b[port+1])), true
}
