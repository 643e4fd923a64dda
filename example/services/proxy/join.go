// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"net/netip"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
)

// Join derives the frontends from the services, with the endpoints of their slices.
type Join struct {
	*derive.Derived[*Service, *Frontend]
	inputs []reconciler.Readiness
}

// Derive returns the derivation of the frontends. Make it before the reconciler, and run it.
func Derive(
	cfg derive.Config[*Frontend], services statedb.Table[*Service], endpoints statedb.Table[*EndpointSlice],
	frontends statedb.RWTable[*Frontend],
) (*Join, error) {
	cfg.Same = func(current, derived *Frontend) bool {
		return current.Name() == derived.Name() && slices.Equal(current.Endpoints, derived.Endpoints)
	}
	bySlices := derive.Lookup(endpoints, byService)
	derived, err := derive.BestOf(cfg, services, frontends,
		func(r *derive.Reader, s *Service) ([]*Frontend, error) {
			of, all := statedb.Collect(bySlices.List(r, s.Name)), s.Frontends()
			for _, f := range all {
				f.Endpoints = endpointsOf(f, of)
			}
			return all, nil
		},
		func(_ *derive.Reader, s *Service) int64 { return s.Created.UnixMilli() }, bySlices)
	return &Join{derived, []reconciler.Readiness{reconciler.Filled(cfg.DB, services), reconciler.Filled(cfg.DB, endpoints)}}, err
}

// Run derives until ctx ends. It begins when the services and the slices have been read: what a program has just begun to
// read has services without their endpoints, which the kernel still has from an earlier run.
func (j *Join) Run(ctx context.Context) error {
	if _, err := reconciler.Ready(ctx, j.inputs...); err != nil {
		return nil // ctx has ended
	}
	return j.Derived.Run(ctx)
}

// Frontends returns what the service claims: a frontend for each of its ports and addresses. They have no endpoints yet.
func (s *Service) Frontends() (all []*Frontend) {
	for _, port := range s.Ports {
		for _, address := range s.Addresses {
			at := kernel.Service{Protocol: port.Protocol, Address: netip.AddrPortFrom(address, port.Number)}
			all = append(all, &Frontend{At: at, Service: s.Name, Port: port.Name})
		}
	}
	return all
}

// endpointsOf returns the endpoints of a frontend among those of the slices of its service: of its port and its family,
// sorted, each once. These are the ready ones, and without any those that serve while they terminate.
func endpointsOf(f *Frontend, of []*EndpointSlice) []netip.AddrPort {
	var ready, leaving []netip.AddrPort
	for _, slice := range of {
		for _, port := range slice.Ports {
			if port.Name != f.Port || port.Protocol != f.At.Protocol {
				continue
			}
			for _, e := range slice.Endpoints {
				switch at := netip.AddrPortFrom(e.Address, port.Number); {
				case e.Address.BitLen() != f.At.Address.Addr().BitLen():
				case e.Ready:
					ready = append(ready, at)
				case e.Serving && e.Terminating:
					leaving = append(leaving, at)
				}
			}
		}
	}
	if len(ready) == 0 {
		ready = leaving
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return slices.Compact(ready)
}
