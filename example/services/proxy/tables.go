// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/example/services/kernel"
)

// Service is a service with addresses of its own, as an input wants it.
type Service struct {
	// Name is the key, such as "default/web".
	Name string
	// Created decides which of two services has an address and a port that both claim: the older one. Of two that are
	// equally old it is the one with the lower name. It counts in milliseconds, and zero is the oldest.
	Created time.Time
	// Addresses are those where clients connect to, at most one of each family. Without any, the service has no frontend.
	Addresses []netip.Addr
	Ports     []Port
}

// Port is a port of a service or of the endpoints of a slice. Clients of a port of a service reach the ports with the
// same name and protocol in the slices of the service.
type Port struct {
	// Name may be empty.
	Name     string
	Protocol kernel.Protocol
	Number   uint16
}

// EndpointSlice is a part of the endpoints of a service. A service may have any number of slices.
type EndpointSlice struct {
	// Name is the key, such as "default/web-x7f2q".
	Name string
	// Service is the name of the service. Nothing follows from a slice whose service is unknown.
	Service string
	// Ports are those of each endpoint.
	Ports     []Port
	Endpoints []Endpoint
}

// Endpoint answers clients. It gets new ones while it is ready. If no endpoint of the service's port is ready, those get
// them that serve while they terminate. In Kubernetes Ready and Serving are true unless a condition says otherwise.
type Endpoint struct {
	Address                     netip.Addr
	Ready, Serving, Terminating bool
}

// TableHeader implements [statedb.TableWritable].
func (s *Service) TableHeader() []string { return []string{"Name", "Addresses", "Ports", "Created"} }

// TableRow implements [statedb.TableWritable].
func (s *Service) TableRow() []string {
	return []string{s.Name, texts(s.Addresses), texts(s.Ports), s.Created.Format(time.RFC3339)}
}

// TableHeader implements [statedb.TableWritable].
func (s *EndpointSlice) TableHeader() []string {
	return []string{"Name", "Service", "Ports", "Endpoints", "Ready"}
}

// TableRow implements [statedb.TableWritable].
func (s *EndpointSlice) TableRow() []string {
	return []string{s.Name, s.Service, texts(s.Ports), strconv.Itoa(len(s.Endpoints)), strconv.Itoa(s.Ready())}
}

// Ready returns how many endpoints are ready.
func (s *EndpointSlice) Ready() (n int) {
	for _, e := range s.Endpoints {
		if e.Ready {
			n++
		}
	}
	return n
}

// String returns the port as in http:tcp/80, and without a name as in tcp/80.
func (p Port) String() string {
	return strings.TrimPrefix(fmt.Sprintf("%s:%s/%d", p.Name, p.Protocol, p.Number), ":")
}

func texts[T fmt.Stringer](all []T) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = one.String()
	}
	return strings.Join(words, " ")
}

// Frontend is what the kernel should do with new flows to an address.
type Frontend struct {
	// At is the key.
	At kernel.Service
	// Service is the name of the service, and Port that of its port; empty if the frontend was listed.
	Service, Port string
	// Endpoints are sorted. Without any, flows are rejected.
	Endpoints []netip.AddrPort
	// Torn is set if the frontend was listed, and its slots in the kernel have gaps or are too many.
	Torn bool
}

// TableHeader implements [statedb.TableWritable].
func (f *Frontend) TableHeader() []string { return []string{"Address", "Service", "Endpoints"} }

// TableRow implements [statedb.TableWritable].
func (f *Frontend) TableRow() []string {
	return []string{f.At.String(), f.Name(), texts(f.Endpoints)}
}

// Name returns the name of the service, and that of the port if it has one, such as "default/web:http".
func (f *Frontend) Name() string { return strings.TrimSuffix(f.Service+":"+f.Port, ":") }

// Names of the tables.
const (
	ServicesTable  = "services"
	SlicesTable    = "endpoint-slices"
	FrontendsTable = "frontends"
)

var (
	byName      = textIndex("name", true, func(s *Service) string { return s.Name })
	bySliceName = textIndex("name", true, func(s *EndpointSlice) string { return s.Name })
	byService   = textIndex("service", false, func(s *EndpointSlice) string { return s.Service })
)

func textIndex[Row any](name string, unique bool, text func(Row) string) statedb.Index[Row, string] {
	return statedb.Index[Row, string]{
		Name:       name,
		FromObject: func(row Row) index.KeySet { return index.NewKeySet(index.String(text(row))) },
		FromKey:    index.String, FromString: index.FromString, Unique: unique,
	}
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

// NewSlices returns the table of the endpoint slices.
func NewSlices(db *statedb.DB) (statedb.RWTable[*EndpointSlice], error) {
	return statedb.NewTable(db, SlicesTable, bySliceName, byService)
}

// NewFrontends returns the table of the frontends.
func NewFrontends(db *statedb.DB) (statedb.RWTable[*Frontend], error) {
	return statedb.NewTable(db, FrontendsTable, byAddress)
}
