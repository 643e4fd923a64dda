// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Table is the number of a routing table. In text it is the name of the tables main and default, and a
// number for all others.
type Table uint32

// The numbers of the kernel's own tables. A state cannot use TableLocal: its routes follow the addresses.
const (
	TableDefault Table = 253
	TableMain    Table = 254
	TableLocal   Table = 255
)

// String returns the table's name if it has one, otherwise its number.
func (t Table) String() string {
	switch t {
	case TableDefault:
		return "default"
	case TableMain:
		return "main"
	}
	return strconv.FormatUint(uint64(t), 10)
}

// MarshalText returns the text of String.
func (t Table) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses the text of String. The table "local" and the number 0 are errors, since a state
// cannot have routes there.
func (t *Table) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case "main":
		*t = TableMain
	case "default":
		*t = TableDefault
	default:
		number, err := strconv.ParseUint(s, 10, 32)
		if s == "local" || Table(number) == TableLocal {
			return fmt.Errorf("table %q belongs to the kernel", s)
		}
		if err != nil || number == 0 {
			return fmt.Errorf("table %q: main, default or a number from 1 to %d is needed", s, uint32(math.MaxUint32))
		}
		*t = Table(number)
	}
	return nil
}

// Scope is the distance to the destinations of an IPv4 route.
type Scope string

// The scopes. The default is ScopeLink for a route without a gateway, and ScopeGlobal for every other route.
// IPv6 routes have no scope and use ScopeGlobal.
const (
	ScopeGlobal Scope = "global"
	ScopeLink   Scope = "link"
	ScopeHost   Scope = "host"
)

// defaultIPv6Metric is the metric that the kernel uses for metric 0 with IPv6.
const defaultIPv6Metric = 1024

// Route is a unicast route. Routes can be compared with ==.
type Route struct {
	// Table holds the route, and has one route to Dst.
	Table Table        `json:"table" yaml:"table"`
	Dst   netip.Prefix `json:"dst" yaml:"dst"`

	// Via is the gateway, or the zero Addr if the destination is on the link.
	Via netip.Addr `json:"via,omitzero" yaml:"via"`

	// Dev is the outgoing link, never empty after [State.Check].
	Dev string `json:"dev" yaml:"dev"`

	// Metric decides which of the routes that are wanted to Dst is in the table: that with the lowest.
	Metric uint32 `json:"metric" yaml:"metric"`
	Scope  Scope  `json:"scope" yaml:"scope"`
}

// Key returns "table/ip/length". A table has one route of a key.
func (r Route) Key() string { return r.Table.String() + "/" + r.Dst.String() }

// KeyWithMetric returns the key, with "/metric" added if the metric is not the default of the route's
// family. An owner wants one route of such a key.
func (r Route) KeyWithMetric() string {
	if r.Metric == defaultMetric(r.Dst) {
		return r.Key()
	}
	return r.Key() + "/" + strconv.FormatUint(uint64(r.Metric), 10)
}

// Needs returns the name of the link the route leaves by.
func (r Route) Needs() string { return r.Dev }

// Reaches reports whether the route makes a host a neighbour on its link, for the gateways of routes in the
// given table.
func (r Route) Reaches(host netip.Addr, asks Table) bool {
	return !r.Via.IsValid() && r.Dst.Contains(host) && (r.Table == asks || r.Table == TableMain)
}

func defaultMetric(dst netip.Prefix) uint32 {
	if dst.Addr().Is6() {
		return defaultIPv6Metric
	}
	return 0
}

func (r *reader) route(n *yaml.Node) (Located[Route], bool) {
	route := Route{Table: TableMain}
	var dst *yaml.Node
	ok := true
	at := r.mapping("route", n, map[string]func(*yaml.Node){
		"dst":    func(n *yaml.Node) { dst = n },
		"via":    func(n *yaml.Node) { route.Via = r.gateway(n); ok = ok && route.Via.IsValid() },
		"dev":    func(n *yaml.Node) { route.Dev = r.linkName(n); ok = ok && route.Dev != "" },
		"table":  func(n *yaml.Node) { route.Table = r.table(n) },
		"metric": func(n *yaml.Node) { route.Metric = uint32(r.number("metric", n, 0, math.MaxUint32)) },
		"scope":  func(n *yaml.Node) { route.Scope = r.scope(n) },
	})
	r.incomplete("route", n, at, "dst")
	if dst == nil || !ok {
		return Located[Route]{}, false
	}
	route.Dst = r.destination(dst, route.Via)
	if !route.Dst.IsValid() {
		return Located[Route]{}, false
	}
	located := Located[Route]{route, r.pos(n), at}
	r.fillRoute(&located)
	return located, true
}

// fillRoute sets the defaults of a route, and reports fields that conflict.
func (r *reader) fillRoute(l *Located[Route]) {
	route := &l.Spec
	if route.Metric == 0 {
		route.Metric = defaultMetric(route.Dst)
	}
	if route.Scope == "" {
		route.Scope = ScopeGlobal
		if !route.Via.IsValid() && route.Dst.Addr().Is4() {
			route.Scope = ScopeLink
		}
	}
	switch {
	case route.Dev == "" && !route.Via.IsValid():
		r.problems.addf(l.Pos, "route %q: via, dev or both are needed", route.Key())
	case route.Via.IsValid() && route.Via.Is4() != route.Dst.Addr().Is4():
		r.problems.addf(l.At("via"), "route %q: gateway %s is of another family than the destination", route.Key(), route.Via)
	case route.Scope != ScopeGlobal && route.Dst.Addr().Is6():
		r.problems.addf(l.At("scope"), "route %q: routes of IPv6 have no scope", route.Key())
	case route.Scope != ScopeGlobal && route.Via.IsValid():
		r.problems.addf(l.At("scope"), "route %q: scope %q means that there is no gateway, and here is one", route.Key(), route.Scope)
	}
}

// destination reads a network, one address, or "default", which is of the gateway's family, or of IPv4
// without a gateway.
func (r *reader) destination(n *yaml.Node, via netip.Addr) netip.Prefix {
	value := r.text("dst", n)
	if value == "default" {
		if via.Is6() {
			return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	if ip, ok := parseIP(value); ok {
		return r.unicast(n, netip.PrefixFrom(ip, ip.BitLen()))
	}
	prefix, err := netip.ParsePrefix(value)
	if err != nil || prefix.Addr().Is4In6() {
		r.addf(n, "dst %q: a network such as 10.1.0.0/16, an address or default is needed", value)
		return netip.Prefix{}
	}
	if prefix != prefix.Masked() {
		r.addf(n, "dst %q has bits set beyond its length; the network is %s", value, prefix.Masked())
		return netip.Prefix{}
	}
	return r.unicast(n, prefix)
}

func (r *reader) unicast(n *yaml.Node, dst netip.Prefix) netip.Prefix {
	if dst.Addr().IsMulticast() {
		r.addf(n, "dst %q is multicast", dst)
		return netip.Prefix{}
	}
	return dst
}

func (r *reader) gateway(n *yaml.Node) netip.Addr {
	value := r.text("via", n)
	ip, ok := parseIP(value)
	if !ok || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() {
		r.addf(n, "via %q: the address of a gateway is needed", value)
		return netip.Addr{}
	}
	return ip
}

func (r *reader) table(n *yaml.Node) Table {
	table := TableMain
	if err := table.UnmarshalText([]byte(r.text("table", n))); err != nil {
		r.addf(n, "%v", err)
	}
	return table
}

func (r *reader) scope(n *yaml.Node) Scope {
	scope := Scope(r.text("scope", n))
	switch scope {
	case ScopeGlobal, ScopeLink, ScopeHost:
	default:
		r.addf(n, "unknown scope %q; known are global, host, link", scope)
	}
	return scope
}
