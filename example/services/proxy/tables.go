// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler/derive"
)

// Service is one port of a service, as an input wants it.
type Service struct {
	// Name is the key, such as "default/web:http".
	Name string
	// At is where clients connect to.
	At kernel.Service
	// Created decides which of two services has an address that both claim: the older one. Of two that are equally old
	// it is the one with the lower name. It counts in milliseconds, and zero is the oldest.
	Created   time.Time
	Endpoints []Endpoint
}

// Endpoint answers clients. It gets new ones while it is ready.
type Endpoint struct {
	Address netip.AddrPort
	Ready   bool
}

// TableHeader implements [statedb.TableWritable].
func (s *Service) TableHeader() []string { return []string{"Name", "Address", "Endpoints", "Ready"} }

// TableRow implements [statedb.TableWritable].
func (s *Service) TableRow() []string {
	return []string{s.Name, s.At.String(), strconv.Itoa(len(s.Endpoints)), strconv.Itoa(len(s.ready()))}
}

// ready returns the addresses of the endpoints that are ready, sorted, each once.
func (s *Service) ready() []netip.AddrPort {
	ready := make([]netip.AddrPort, 0, len(s.Endpoints))
	for _, e := range s.Endpoints {
		if e.Ready {
			ready = append(ready, e.Address)
		}
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return slices.Compact(ready)
}

// Frontend is what the kernel should do with new flows to an address.
type Frontend struct {
	// At is the key.
	At kernel.Service
	// Name is that of the service; empty if the frontend was listed.
	Name string
	// Endpoints are sorted. Without any, flows are rejected.
	Endpoints []netip.AddrPort
	// Torn is set if the frontend was listed, and its slots in the kernel have gaps or are too many.
	Torn bool
}

// TableHeader implements [statedb.TableWritable].
func (f *Frontend) TableHeader() []string { return []string{"Address", "Service", "Endpoints"} }

// TableRow implements [statedb.TableWritable].
func (f *Frontend) TableRow() []string {
	endpoints := make([]string, 0, len(f.Endpoints))
	for _, e := range f.Endpoints {
		endpoints = append(endpoints, e.String())
	}
	return []string{f.At.String(), f.Name, strings.Join(endpoints, " ")}
}

// Names of the tables.
const (
	ServicesTable  = "services"
	FrontendsTable = "frontends"
)

var byName = statedb.Index[*Service, string]{
	Name:       "name",
	FromObject: func(s *Service) index.KeySet { return index.NewKeySet(index.String(s.Name)) },
	FromKey:    index.String, FromString: index.FromString, Unique: true,
}

var byAddress = statedb.Index[*Frontend, kernel.Service]{
	Name:       "address",
	FromObject: func(f *Frontend) index.KeySet { return index.NewKeySet(addressKey(f.At)) },
	FromKey:    addressKey, FromString: func(text string) (index.Key, error) { return index.Key(text), nil }, Unique: true,
}

// ByName is a query for the service with a name.
func ByName(name string) statedb.Query[*Service] { return byName.Query(name) }

// ByAddress is a query for the frontend of an address.
func ByAddress(at kernel.Service) statedb.Query[*Frontend] { return byAddress.Query(at) }

// addressKey is a text, so that people can name a frontend.
func addressKey(s kernel.Service) index.Key { return index.Key(s.String()) }

// NewServices returns the table of the services.
func NewServices(db *statedb.DB) (statedb.RWTable[*Service], error) {
	return statedb.NewTable(db, ServicesTable, byName)
}

// NewFrontends returns the table of the frontends.
func NewFrontends(db *statedb.DB) (statedb.RWTable[*Frontend], error) {
	return statedb.NewTable(db, FrontendsTable, byAddress)
}

// Derive returns the derivation of the frontends. Make it before the reconciler, and run it.
func Derive(cfg derive.Config[*Frontend], services statedb.Table[*Service], frontends statedb.RWTable[*Frontend]) (
	*derive.Derived[*Service, *Frontend], error,
) {
	cfg.Same = func(current, derived *Frontend) bool {
		return current.Name == derived.Name && slices.Equal(current.Endpoints, derived.Endpoints)
	}
	return derive.Best(cfg, services, frontends, frontendOf, func(s *Service) int64 { return s.Created.UnixMilli() })
}

// frontendOf returns the frontend that a service claims.
func frontendOf(s *Service) ([]*Frontend, error) {
	return []*Frontend{{At: s.At, Name: s.Name, Endpoints: s.ready()}}, nil
}
