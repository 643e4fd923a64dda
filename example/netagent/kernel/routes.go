// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"sync"

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

	// managed are the tables that prune covers: main, and every table that has had a row.
	mu      sync.Mutex
	managed map[config.Table]struct{}
}

func newRoutes(s surroundings) *routes {
	return &routes{surroundings: s, managed: map[config.Table]struct{}{config.TableMain: {}}}
}

// manage adds a table to those that prune covers.
func (r *routes) manage(table config.Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.managed[table] = struct{}{}
}

func (r *routes) manages(table config.Table) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, managed := r.managed[table]
	return managed
}

// Update adds the route, and then removes the others with the same table and destination: those of another
// metric too, since the kernel keeps them beside it. So a destination never lacks a route meanwhile.
func (r *routes) Update(_ context.Context, txn statedb.ReadTxn, _ statedb.Revision, row *desired.Route) error {
	want := row.Spec
	r.manage(want.Table)
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
	if !slices.ContainsFunc(have, func(route netlink.Route) bool { return is(route, want, link.Index) }) {
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
		case is(route, want, link.Index):
		case route.Protocol == Protocol: // from an earlier version of the row
			errs = append(errs, deleteRoute(route))
		default:
			errs = append(errs, r.stray("route", want.Key(), deleteRoute(route)))
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
	if err := add(&route); err != nil {
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
		errs = append(errs, deleteRoute(route))
	}
	return errors.Join(errs...)
}

// Prune removes every route of the managed tables that no row asks for, except those that the kernel itself
// made, and those of this program that the Update of a row is about to replace.
func (r *routes) Prune(_ context.Context, _ statedb.ReadTxn, rows iter.Seq2[*desired.Route, statedb.Revision]) error {
	want := wanted(rows)
	for _, route := range want {
		r.manage(route.Table)
	}
	all, err := listRoutes(netlink.FAMILY_ALL, netlink.Route{}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	var errs []error
	for _, route := range all {
		if !r.manages(config.Table(route.Table)) || !ours(route) {
			continue
		}
		row, asked := want[keyOf(route)]
		if !asked || route.Protocol != Protocol && uint32(route.Priority) != row.Metric {
			errs = append(errs, r.stray("route", keyOf(route), deleteRoute(route)))
		}
	}
	return errors.Join(errs...)
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
func keyOf(route netlink.Route) string {
	dst := prefixOf(route.Dst)
	if !dst.IsValid() {
		dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if route.Family == netlink.FAMILY_V6 {
			dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
	}
	return config.Route{Table: config.Table(route.Table), Dst: dst}.Key()
}

// is reports whether a route of the same table and destination equals the desired one.
func is(route netlink.Route, want config.Route, index int) bool {
	via, _ := netip.AddrFromSlice(route.Gw)
	return route.Protocol == Protocol &&
		uint32(route.Priority) == want.Metric &&
		route.Type == unix.RTN_UNICAST &&
		route.Tos == 0 &&
		len(route.MultiPath) == 0 &&
		route.LinkIndex == index &&
		via.Unmap() == want.Via &&
		route.Scope == scopeOf(want)
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
	if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete route %q: %w", keyOf(route), err)
	}
	return nil
}
