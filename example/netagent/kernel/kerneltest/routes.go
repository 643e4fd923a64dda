// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

// Package kerneltest observes what programs do to the kernel's routes, for tests.
package kerneltest

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Routes follows the routes to one destination in the table main of a network namespace.
type Routes struct {
	dst     string
	there   map[string]uint32 // the metrics of the routes
	updates chan netlink.RouteUpdate
	done    chan struct{}
}

// WatchRoutes begins to follow, in the network namespace of the calling thread.
func WatchRoutes(dst *net.IPNet) (*Routes, error) {
	r := &Routes{
		dst: dst.String(), there: make(map[string]uint32),
		updates: make(chan netlink.RouteUpdate, 1024), done: make(chan struct{}),
	}
	if err := netlink.RouteSubscribe(r.updates, r.done); err != nil {
		return nil, err
	}
	all, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	if err != nil {
		close(r.done)
		return nil, err
	}
	for _, route := range all {
		r.add(route)
	}
	return r, nil
}

// last is a route that End makes, to know that it has seen all changes before.
var last = netlink.Route{Dst: &net.IPNet{IP: net.IPv4(198, 51, 100, 0).To4(), Mask: net.CIDRMask(24, 32)}, Type: unix.RTN_BLACKHOLE, Table: 4242}

// End stops, in the same namespace, and returns how many routes there were to the destination after each
// change of them. A 0 is a gap.
func (r *Routes) End() (counts []int, err error) {
	defer func() {
		close(r.done)
		for range r.updates { // until it is closed
		}
	}()
	if err := netlink.RouteAdd(&last); err != nil {
		return nil, err
	}
	for update := range r.updates {
		if update.Table == last.Table {
			return counts, netlink.RouteDel(&last)
		}
		if update.Dst == nil || update.Dst.String() != r.dst || update.Table != unix.RT_TABLE_MAIN {
			continue
		}
		if update.Type == unix.RTM_DELROUTE {
			delete(r.there, name(update.Route))
		} else {
			if update.NlFlags&unix.NLM_F_REPLACE != 0 {
				r.drop(uint32(update.Priority))
			}
			r.add(update.Route)
		}
		counts = append(counts, len(r.there))
	}
	return nil, fmt.Errorf("the kernel reports no more routes")
}

func (r *Routes) add(route netlink.Route) {
	if route.Dst != nil && route.Dst.String() == r.dst {
		r.there[name(route)] = uint32(route.Priority)
	}
}

// drop removes the routes of a metric: a new one has taken their place.
func (r *Routes) drop(metric uint32) {
	for name, other := range r.there {
		if other == metric {
			delete(r.there, name)
		}
	}
}

func name(route netlink.Route) string {
	return fmt.Sprintf("via %s dev %d metric %d proto %d", route.Gw, route.LinkIndex, route.Priority, route.Protocol)
}
