// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
)

const (
	// maxServices and maxEndpoints keep addresses within the ranges below.
	maxServices  = 1 << 20
	maxEndpoints = 1 << 23

	servicePort  = 80
	endpointPort = 8080
)

var (
	firstService  = binary.BigEndian.Uint32([]byte{10, 96, 0, 1})  // a usual range of services: 10.96.0.0/12
	firstEndpoint = binary.BigEndian.Uint32([]byte{10, 128, 0, 0}) // 10.128.0.0/9
)

// Shape says how large a workload is.
type Shape struct {
	Services  int
	Endpoints int // of each service
}

func (s Shape) check() error {
	switch {
	case s.Services < 1 || s.Services > maxServices:
		return fmt.Errorf("there can be 1 to %d services, not %d", maxServices, s.Services)
	case s.Endpoints < 1 || s.Endpoints > maxEndpoints/s.Services:
		return fmt.Errorf("%d services can have 1 to %d endpoints each, not %d", s.Services, maxEndpoints/s.Services,
			s.Endpoints)
	}
	return nil
}

// Workload is services and their changes. The same shape gives the same ones each time, so that a process that
// restarts has the input of the one before.
//
// An endpoint is a serial number, from which its address follows. That keeps the workload small beside the contender,
// whose memory is measured with it.
type Workload struct {
	shape  Shape
	slots  []int32 // of service i: those from i*Endpoints
	unused int32   // the smallest serial number that no endpoint ever had
	order  []int32 // of slots to change
	at     int     // in order
	random *rand.Rand
}

// NewWorkload returns the workload before its first change.
func NewWorkload(shape Shape) *Workload {
	n := shape.Services * shape.Endpoints
	w := &Workload{
		shape:  shape,
		slots:  make([]int32, n),
		order:  make([]int32, n),
		unused: int32(n),
		random: rand.New(rand.NewPCG(1, 2)),
	}
	for i := range w.slots {
		w.slots[i], w.order[i] = int32(i), int32(i)
	}
	w.shuffle()
	return w
}

func (w *Workload) shuffle() {
	w.random.Shuffle(len(w.order), func(i, j int) { w.order[i], w.order[j] = w.order[j], w.order[i] })
	w.at = 0
}

// Change replaces an endpoint of a service. It visits all endpoints before it visits one again: then a change is
// rarely overtaken by another one of the same endpoint before it has reached the kernel.
func (w *Workload) Change() (service int, removed, added int32) {
	if w.at == len(w.order) {
		w.shuffle()
	}
	slot := w.order[w.at]
	w.at++
	removed, added = w.slots[slot], w.unused
	w.slots[slot] = added
	w.unused++
	return int(slot) / w.shape.Endpoints, removed, added
}

// Service returns the service with the number i.
func (w *Workload) Service(i int) Service {
	s := Service{
		Name:      fmt.Sprintf("service-%d", i),
		Addr:      addrOf(firstService, int32(i)),
		Port:      servicePort,
		Endpoints: make([]netip.AddrPort, 0, w.shape.Endpoints),
	}
	for _, serial := range w.endpoints(i) {
		s.Endpoints = append(s.Endpoints, netip.AddrPortFrom(addrOf(firstEndpoint, serial), endpointPort))
	}
	return s
}

// endpoints returns the serial numbers of the endpoints of a service.
func (w *Workload) endpoints(service int) []int32 {
	return w.slots[service*w.shape.Endpoints:][:w.shape.Endpoints]
}

func addrOf(first uint32, i int32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, first+uint32(i))))
}

// endpointSerial returns the serial number of the endpoint with an address.
func endpointSerial(a netip.AddrPort) (int32, bool) {
	return serialOf(firstEndpoint, maxEndpoints, endpointPort, a)
}

// serviceSerial returns the number of the service with an address.
func serviceSerial(a netip.AddrPort) (int32, bool) {
	return serialOf(firstService, maxServices, servicePort, a)
}

func serialOf(first, limit uint32, port uint16, a netip.AddrPort) (int32, bool) {
	if !a.Addr().Is4() || a.Port() != port {
		return 0, false
	}
	four := a.Addr().As4()
	i := binary.BigEndian.Uint32(four[:]) - first
	return int32(i), i < limit
}
