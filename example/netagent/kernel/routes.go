// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/statedb"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
)

// Protocol is the number that marks a netagent's routes in the kernel, shown as
// "proto 83" by ip route.
const Protocol netlink.RouteProtocol = 83

// routes adds routes to the kernel's tables and removes them.
type routes struct {
	surroundings

	// managed has the tables that have had a row: in these and in main the routes of other programs are removed too.
	managed sync.Map
}

// owns reports whether a route that no row asks for is removed.
func (r *routes) owns(found route) bool {
	_, managed := r.managed.Load(found.spec.Table)
	return !found.kernels && (found.protocol == Protocol || managed || found.spec.Table == config.TableMain)
}

// Update adds the route, and then removes the others with the same table and destination: those of another
// metric too, since the kernel keeps them beside it. So a destination never lacks a route meanwhile.
func (r *routes) Update(_ context.Context, txn statedb.ReadTxn, _ statedb.Revision, row *desired.Route) error {
	want := row.Spec
	r.managed.Store(want.Table, nil)
	link, err := r.needLink(txn, want.Dev, up)
	if err != nil {
		return err
	}
	if err := r.needGateway(txn, want); err != nil {
		return err
	}
	have, err := routesOf(want)
	if err != nil {
		return err
	}
	right := func(have route) bool { return have.link == link.Index && have.is(want) }
	if !slices.ContainsFunc(have, right) {
		// The kernel would replace the first of this metric.
		first := slices.IndexFunc(have, func(have route) bool { return have.spec.Metric == want.Metric && have.tos == 0 })
		if err := install(want, link.Index, first >= 0 && !have[first].kernels); err != nil {
			return r.failedOn(txn, link, err)
		}
		if have, err = routesOf(want); err != nil {
			return err
		}
		defer repaired(r.surroundings, txn, r.Tables.Loops.Routes, "route", row)
	}
	wrong := func(have route) bool { return r.owns(have) && !right(have) }
	var errs []error
	for _, route := range have {
		switch {
		case !wrong(route):
		case route.protocol == Protocol: // from an earlier version of the row
			errs = append(errs, route.delete())
		default:
			errs = append(errs, removed(r.surroundings, "route", &desired.Route{Spec: want}, route.delete()))
		}
	}
	if slices.ContainsFunc(have, wrong) {
		have, err = routesOf(want)
		errs = append(errs, err)
	}
	if !slices.ContainsFunc(have, right) || slices.ContainsFunc(have, wrong) {
		errs = append(errs, fmt.Errorf("route %q: another program changes it, or the kernel made it another: %v", want.Key(), have))
	}
	return errors.Join(errs...)
}

func install(want config.Route, index int, replace bool) error {
	route := netlink.Route{
		Dst:       ipNet(want.Dst),
		Table:     int(want.Table),
		LinkIndex: index,
		Priority:  int(want.Metric),
		Protocol:  Protocol,
		Scope:     scopeOf(want),
		Type:      unix.RTN_UNICAST,
	}
	if want.Via.IsValid() {
		route.Gw = want.Via.AsSlice()
	}
	add := netlink.RouteAdd
	if replace {
		add = netlink.RouteReplace
	}
	if err := wrote("route", add(&route)); err != nil {
		return fmt.Errorf("add route %q: %w", want.Key(), err)
	}
	return nil
}

// Delete removes the routes of this table and destination, except those that this program does not own.
func (r *routes) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, row *desired.Route) error {
	left := func() ([]route, error) {
		have, err := routesOf(row.Spec)
		return slices.DeleteFunc(have, func(have route) bool { return !r.owns(have) }), err
	}
	have, err := left()
	if err != nil || len(have) == 0 {
		return err
	}
	var errs []error
	for _, route := range have {
		errs = append(errs, removed(r.surroundings, "route", row, route.delete()))
	}
	if have, err = left(); err == nil && len(have) > 0 {
		err = fmt.Errorf("route %q is still there after it was deleted: %v", row.Spec.Key(), have)
	}
	return errors.Join(append(errs, err)...)
}

// List lists this program's routes, and all of the managed tables except those that the kernel itself made.
func (r *routes) List(ctx context.Context, _ statedb.ReadTxn, yield func(*desired.Route) bool) error {
	txn, _, names, err := r.look(ctx)
	if err != nil {
		return err
	}
	planned := map[config.Table]bool{}
	for row := range r.Tables.Routes.All(txn) {
		if reconciler.IsPlan(ctx) {
			planned[row.Spec.Table] = true
		} else {
			r.managed.Store(row.Spec.Table, nil)
		}
	}
	all, err := routeMessages.list()
	if err != nil {
		return err
	}
	for _, o := range all {
		found := readRoute(o)
		if !r.owns(found) && (!planned[found.spec.Table] || found.kernels) {
			continue
		}
		found.spec.Dev = names[found.link]
		if !yield(&desired.Route{Spec: found.spec, Extra: strings.Join(found.extra, ", ")}) {
			break
		}
	}
	return nil
}

// Get gets the route of a table and a destination as List lists it: if there are several, one that is not as wanted.
func (r *routes) Get(_ context.Context, _ statedb.ReadTxn, wanted *desired.Route) (found *desired.Route, ok bool, err error) {
	have, err := routesOf(wanted.Spec)
	if err != nil {
		return nil, false, err
	}
	for _, route := range have {
		if !r.owns(route) || found != nil && (found.Spec != wanted.Spec || found.Extra != "") {
			continue
		}
		if route.spec.Dev, err = linkName(route.link); err != nil {
			return nil, false, err
		}
		found = &desired.Route{Spec: route.spec, Extra: strings.Join(route.extra, ", ")}
	}
	return found, found != nil, nil
}

// routesOf returns the routes with the table and destination of the desired one, correct or not, and also the
// kernel's own.
func routesOf(want config.Route) (have []route, err error) {
	family := uint8(unix.AF_INET)
	if want.Dst.Addr().Is6() {
		family = unix.AF_INET6
	}
	all, err := routeMessages.listFamily(family)
	for _, o := range all {
		if found := readRoute(o); found.spec.Table == want.Table && found.spec.Dst == want.Dst {
			have = append(have, found)
		}
	}
	return have, err
}

// route is a route in the kernel.
type route struct {
	object
	spec     config.Route // without Dev
	link     int
	tos      uint8
	protocol netlink.RouteProtocol

	// kernels reports whether the kernel itself made it, for an address, a redirect or a router advertisement, or it is
	// in the kernel's own table.
	kernels bool

	// extra describes what install would not make so.
	extra []string
}

// is reports whether it is the wanted route as install makes it, by whatever link.
func (r route) is(want config.Route) bool {
	want.Dev = ""
	return r.spec == want && len(r.extra) == 0
}

// String describes a route.
func (r route) String() string {
	return fmt.Sprintf("via %s metric %d proto %d of link %d %v", r.spec.Via, r.spec.Metric, r.protocol, r.link, r.extra)
}

// Attributes of routes that package unix does not have.
const (
	rtaNexthop   = 30
	rtaFlowLabel = 31
)

var routeMessages = messages{
	what: "routes", fresh: unix.RTM_NEWROUTE, del: unix.RTM_DELROUTE, get: unix.RTM_GETROUTE,
	header: func(family uint8) nl.NetlinkRequestData { return &nl.RtMsg{RtMsg: unix.RtMsg{Family: family}} },
	names: map[uint16]string{
		unix.RTA_SRC: "a source network", unix.RTA_IIF: "an incoming link", unix.RTA_PREFSRC: "a source address",
		unix.RTA_METRICS: "metrics such as an MTU", unix.RTA_MULTIPATH: "several next hops", unix.RTA_FLOW: "a realm",
		unix.RTA_CACHEINFO: "an expiry", unix.RTA_MARK: "a mark", unix.RTA_VIA: "a gateway of another family",
		unix.RTA_NEWDST: "a new destination", unix.RTA_PREF: "a preference", unix.RTA_ENCAP_TYPE: "an encapsulation",
		unix.RTA_EXPIRES: "an expiry", unix.RTA_UID: "a user", unix.RTA_TTL_PROPAGATE: "a propagated TTL",
		unix.RTA_IP_PROTO: "an IP protocol", unix.RTA_SPORT: "a source port", unix.RTA_DPORT: "a destination port",
		rtaNexthop: "a nexthop object", rtaFlowLabel: "a flow label",
	},
}

func readRoute(o object) route {
	header := nl.DeserializeRtMsg(o.header)
	dst := o.ip(unix.RTA_DST)
	switch {
	case dst.IsValid():
	case header.Family == unix.AF_INET6:
		dst = netip.IPv6Unspecified()
	default:
		dst = netip.IPv4Unspecified()
	}
	r := route{
		object: o, link: int(o.number(unix.RTA_OIF)), tos: header.Tos, protocol: netlink.RouteProtocol(header.Protocol),
		spec: config.Route{
			Table: config.Table(header.Table), Dst: netip.PrefixFrom(dst, int(header.Dst_len)), Via: o.ip(unix.RTA_GATEWAY),
			Metric: o.number(unix.RTA_PRIORITY), Scope: config.Scope(netlink.Scope(header.Scope).String()),
		},
	}
	if table := o.number(unix.RTA_TABLE); table != 0 {
		r.spec.Table = config.Table(table)
	}
	if header.Scope == unix.RT_SCOPE_UNIVERSE {
		r.spec.Scope = config.ScopeGlobal
	}
	switch r.protocol {
	case unix.RTPROT_KERNEL, unix.RTPROT_REDIRECT, unix.RTPROT_RA:
		r.kernels = true
	}
	r.kernels = r.kernels || r.spec.Table == config.TableLocal
	r.extra = routeMessages.extra(o, func(kind uint16, value []byte) bool {
		switch kind {
		case unix.RTA_CACHEINFO:
			const expires = 8 // its offset in struct rta_cacheinfo
			return len(value) < expires+4 || binary.NativeEndian.Uint32(value[expires:]) == 0
		case unix.RTA_PREF:
			return o.number(kind) == 0
		}
		return false
	})
	for what, there := range map[string]bool{
		"another protocol": r.protocol != Protocol, "another type": header.Type != unix.RTN_UNICAST,
		"a type of service": header.Tos != 0, "a source network": header.Src_len != 0,
		"flags such as onlink": header.Flags&(unix.RTNH_F_ONLINK|unix.RTNH_F_PERVASIVE) != 0,
	} {
		if there {
			r.extra = append(r.extra, what)
		}
	}
	slices.Sort(r.extra)
	return r
}

func scopeOf(want config.Route) netlink.Scope {
	switch want.Scope {
	case config.ScopeLink:
		return netlink.SCOPE_LINK
	case config.ScopeHost:
		return netlink.SCOPE_HOST
	}
	return netlink.SCOPE_UNIVERSE
}

// delete removes the route. A missing route is no error.
func (r route) delete() error {
	header := nl.DeserializeRtMsg(slices.Clone(r.header))
	header.Flags = 0 // they tell the state of the next hop
	without := []uint16{unix.RTA_CACHEINFO}
	if r.attr(rtaNexthop) != nil {
		// The kernel tells these of the nexthop object, and accepts no request with both.
		without = append(without, unix.RTA_OIF, unix.RTA_GATEWAY, unix.RTA_VIA, unix.RTA_MULTIPATH, unix.RTA_ENCAP, unix.RTA_ENCAP_TYPE)
		header.Type = unix.RTN_UNSPEC
	}
	named := object{header: header.Serialize(), attrs: r.attrs}
	if err := wrote("route", routeMessages.delete(named, without...)); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete route %q (%v): %w", r.spec.Key(), r, err)
	}
	return nil
}
