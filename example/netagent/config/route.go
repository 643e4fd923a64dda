// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

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

func readRoute(n *yaml.Node) (Route, error) {
	var raw struct {
		Dst, Dev string
		Via      netip.Addr
		Table    Table
		Metric   uint32
		Scope    Scope
	}
	if err := decode(n, "route", &raw); err != nil {
		return Route{}, err
	}
	dst, err := destination(raw.Dst, raw.Via)
	if err != nil {
		return Route{}, err
	}
	route := Route{
		Table: cmp.Or(raw.Table, TableMain), Dst: dst, Via: raw.Via, Dev: raw.Dev,
		Metric: cmp.Or(raw.Metric, defaultMetric(dst)), Scope: cmp.Or(raw.Scope, defaultScope(dst, raw.Via)),
	}
	return route, route.check()
}

func defaultScope(dst netip.Prefix, via netip.Addr) Scope {
	if !via.IsValid() && dst.Addr().Is4() {
		return ScopeLink
	}
	return ScopeGlobal
}

// check returns an error if fields conflict.
func (r Route) check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("route %q: "+format, append([]any{r.Key()}, args...)...)
	}
	if r.Dev != "" {
		if err := checkLinkName(r.Dev); err != nil {
			return wrong("dev: %w", err)
		}
	}
	via := r.Via
	switch {
	case r.Scope != ScopeGlobal && r.Scope != ScopeLink && r.Scope != ScopeHost:
		return wrong("unknown scope %q; known are global, host, link", r.Scope)
	case r.Dst.Addr().IsMulticast():
		return wrong("its destination is multicast")
	case r.Dev == "" && !via.IsValid():
		return wrong("via, dev or both are needed")
	case r.Scope != ScopeGlobal && r.Dst.Addr().Is6():
		return wrong("routes of IPv6 have no scope")
	case !via.IsValid():
		return nil
	case via.IsUnspecified() || via.IsMulticast() || via.IsLoopback() || via.Is4In6() || via.Zone() != "":
		return wrong("via %q: the address of a gateway is needed", via)
	case via.Is4() != r.Dst.Addr().Is4():
		return wrong("gateway %s is of another family than the destination", via)
	case r.Scope != ScopeGlobal:
		return wrong("scope %q means that there is no gateway, and here is one", r.Scope)
	}
	return nil
}

// destination reads a network, one address, or "default", which is of the gateway's family, or of IPv4
// without a gateway.
func destination(text string, via netip.Addr) (netip.Prefix, error) {
	if text == "default" {
		if via.Is6() {
			return netip.PrefixFrom(netip.IPv6Unspecified(), 0), nil
		}
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if ip, ipErr := netip.ParseAddr(text); ipErr == nil {
		prefix, err = netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	switch {
	case err != nil || prefix.Addr().Is4In6() || strings.Contains(text, "%"):
		return prefix, fmt.Errorf("route: dst %q: a network such as 10.1.0.0/16, an address or default is needed", text)
	case prefix != prefix.Masked():
		return prefix, fmt.Errorf("route: dst %q has bits set beyond its length; the network is %s", text, prefix.Masked())
	}
	return prefix, nil
}
