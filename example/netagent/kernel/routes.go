// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/statedb"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
)

// Protocol is the number that marks a netagent's routes in the kernel, shown as
// "proto 83" by ip route.
const Protocol netlink.RouteProtocol = 83

// routes adds routes to the kernel's tables and removes them.
type routes struct {
	surroundings

	// managed has main and the tables that have had a row: there the routes of other programs are removed too. Only List
	// uses it.
	managed map[config.Table]bool
}

// Update adds the route, and then removes the others with the same table and destination: those of another
// metric too, since the kernel keeps them beside it. So a destination never lacks a route meanwhile.
func (r *routes) Update(_ context.Context, txn statedb.ReadTxn, _ statedb.Revision, row *desired.Route) error {
	want := row.Spec
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
	right := func(route netlink.Route) bool {
		return routeSpec(route, map[int]string{link.Index: link.Name}) == want
	}
	if !slices.ContainsFunc(have, right) {
		replace := slices.ContainsFunc(have, func(route netlink.Route) bool { return uint32(route.Priority) == want.Metric })
		if err := install(want, link.Index, replace); err != nil {
			return r.failedOn(txn, link, err)
		}
		if have, err = routesOf(want); err != nil {
			return err
		}
		defer repaired(r.surroundings, txn, r.Tables.Loops.Routes, "route", row)
	}
	var errs []error
	for _, route := range have {
		switch {
		case right(route):
		case route.Protocol == Protocol: // from an earlier version of the row
			errs = append(errs, deleteRoute(route))
		default:
			errs = append(errs, removed(r.surroundings, "route", &desired.Route{Spec: want}, deleteRoute(route)))
		}
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

// Delete removes the routes of this table and destination.
func (r *routes) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, row *desired.Route) error {
	have, err := routesOf(row.Spec)
	if err != nil {
		return err
	}
	var errs []error
	for _, route := range have {
		errs = append(errs, removed(r.surroundings, "route", row, deleteRoute(route)))
	}
	return errors.Join(errs...)
}

// List lists this program's routes, and all of the managed tables except those that the kernel itself made.
func (r *routes) List(ctx context.Context, _ statedb.ReadTxn, yield func(*desired.Route) bool) error {
	txn, _, names, err := r.look(ctx)
	if err != nil {
		return err
	}
	for row := range r.Tables.Routes.All(txn) {
		r.managed[row.Spec.Table] = true
	}
	all, err := listRoutes(netlink.FAMILY_ALL, netlink.Route{}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	for _, route := range all {
		managed := route.Protocol == Protocol || r.managed[config.Table(route.Table)]
		if ours(route) && managed && !yield(&desired.Route{Spec: routeSpec(route, names)}) {
			break
		}
	}
	return nil
}

// routesOf returns the routes with the table and destination of the desired one, correct or not.
func routesOf(want config.Route) (have []netlink.Route, err error) {
	family := netlink.FAMILY_V4
	if want.Dst.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := listRoutes(family, netlink.Route{Table: int(want.Table)}, netlink.RT_FILTER_TABLE)
	for _, route := range all {
		if ours(route) && keyOf(route) == want.Key() {
			have = append(have, route)
		}
	}
	return have, err
}

func listRoutes(family int, filter netlink.Route, mask uint64) ([]netlink.Route, error) {
	return dump("routes", func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(family, &filter, mask)
	})
}

// ours reports whether a user or a program added a route: all routes except those that the kernel itself
// makes for addresses, redirects and router advertisements, and those in its own table.
func ours(route netlink.Route) bool {
	switch route.Protocol {
	case unix.RTPROT_KERNEL, unix.RTPROT_REDIRECT, unix.RTPROT_RA:
		return false
	}
	return route.Table != int(config.TableLocal)
}

// keyOf returns the key of a desired route with this route's table and destination.
func keyOf(route netlink.Route) string { return routeSpec(route, nil).Key() }

// routeSpec returns what a row would say of a route. links has the names of links. A route that no row can ask for
// has no Dev.
func routeSpec(route netlink.Route, links map[int]string) config.Route {
	via, _ := netip.AddrFromSlice(route.Gw)
	spec := config.Route{
		Table: config.Table(route.Table), Dst: prefixOf(route.Dst), Via: via.Unmap(), Metric: uint32(route.Priority),
		Scope: config.Scope(route.Scope.String()),
	}
	if !spec.Dst.IsValid() {
		spec.Dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if route.Family == netlink.FAMILY_V6 {
			spec.Dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
	}
	if route.Scope == netlink.SCOPE_UNIVERSE {
		spec.Scope = config.ScopeGlobal
	}
	if route.Protocol == Protocol && route.Type == unix.RTN_UNICAST && route.Tos == 0 {
		spec.Dev = links[route.LinkIndex]
	}
	return spec
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

// deleteRoute removes a route. A missing route is no error.
func deleteRoute(route netlink.Route) error {
	if err := wrote("route", netlink.RouteDel(&route)); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete route %q: %w", keyOf(route), err)
	}
	return nil
}
