// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"fmt"
	"net/netip"
)

// Check finds objects that are valid alone but not together: duplicate names, ports of a link that is not a
// bridge, routes by links that are down, routes whose gateway no address or route reaches. It also fills in
// the link of routes that name only a gateway. The error is of type [Problems].
//
// A link that is named but not in the state is no problem: another program may create it, and what needs it
// waits. Its properties are unknown here, so it counts as up and as suitable for anything.
func (s *State) Check() error {
	c := checker{state: s, links: make(map[string]Located[Link], len(s.Links))}
	c.checkLinks()
	c.checkAddresses()
	c.checkRoutes()
	c.checkSysctls()
	return c.problems.err()
}

type checker struct {
	state    *State
	links    map[string]Located[Link]
	problems Problems

	own        map[netip.Addr]string // the first link with the address
	neighbours neighbours
}

// twice reports an object whose key is in seen, and adds the key otherwise.
func (c *checker) twice(seen map[string]Pos, what, key string, at Pos) bool {
	first, there := seen[key]
	if there {
		c.addf(at, "%s %q is given twice, first on line %d", what, key, first.Line)
	} else {
		seen[key] = at
	}
	return there
}

func (c *checker) addf(at Pos, format string, args ...any) {
	c.problems.add(at, fmt.Errorf(format, args...))
}

func (c *checker) checkLinks() {
	seen := make(map[string]Pos)
	for _, l := range c.state.Links {
		if !c.twice(seen, "link", l.Spec.Name, l.Pos) {
			c.links[l.Spec.Name] = l
		}
	}
	for _, l := range c.state.Links {
		if l.Spec.Master == "" {
			continue
		}
		if master, ok := c.links[l.Spec.Master]; ok && master.Spec.Kind != Bridge {
			c.addf(l.Pos, "link %q: its master %q is a %s, not a bridge", l.Spec.Name, l.Spec.Master, master.Spec.Kind)
		}
	}
}

func (c *checker) checkAddresses() {
	seen := make(map[string]Pos)
	for _, a := range c.state.Addresses {
		// Two prefix lengths for one IP on one link would replace each other for ever.
		c.twice(seen, "address", a.Spec.Dev+"/"+a.Spec.CIDR.Addr().String(), a.Pos)
		link, ok := c.links[a.Spec.Dev]
		if ok && a.Spec.CIDR.Addr().Is6() && link.Spec.MTU < minIPv6MTU {
			c.addf(a.Pos, "address %q: link %q has an MTU of %d, and IPv6 needs %d",
				a.Spec.Key(), a.Spec.Dev, link.Spec.MTU, minIPv6MTU)
		}
	}
}

func (c *checker) checkRoutes() {
	c.own = make(map[netip.Addr]string, len(c.state.Addresses))
	for _, a := range c.state.Addresses {
		if _, has := c.own[a.Spec.CIDR.Addr()]; !has {
			c.own[a.Spec.CIDR.Addr()] = a.Spec.Dev
		}
	}
	c.neighbours = neighboursOf(c.offered)
	seen := make(map[string]Pos)
	for i := range c.state.Routes {
		route := &c.state.Routes[i]
		if c.twice(seen, "route", route.Spec.KeyWithMetric(), route.Pos) {
			continue
		}
		if c.checkUp(*route) && route.Spec.Via.IsValid() {
			c.checkGateway(route)
		}
	}
}

// checkUp reports a route by a link that is configured down.
func (c *checker) checkUp(route Located[Route]) (ok bool) {
	if c.mayBeUp(route.Spec.Dev) {
		return true
	}
	c.addf(route.Pos, "route %q: link %q is down", route.Spec.Key(), route.Spec.Dev)
	return false
}

// mayBeUp reports whether a link is configured up, or not in the state.
func (c *checker) mayBeUp(name string) bool {
	link, ok := c.links[name]
	return !ok || link.Spec.Up
}

// checkGateway reports a gateway that is not reachable. If the route names no link, it sets the link that
// reaches the gateway.
func (c *checker) checkGateway(route *Located[Route]) {
	via, key := route.Spec.Via, route.Spec.Key()
	if dev, own := c.own[via]; own {
		c.addf(route.Pos, "route %q: its gateway %s is an address of %q, of this very namespace", key, via, dev)
		return
	}
	if via.IsLinkLocalUnicast() && via.Is6() {
		if route.Spec.Dev == "" {
			c.addf(route.Pos, "route %q: gateway %s is link-local, so dev is needed", key, via)
		}
		return
	}
	devs := c.neighbours.reach(via, route.Spec.Dev, route.Spec.Table)
	switch {
	case len(devs) == 0 && route.Spec.Dev == "":
		c.addf(route.Pos, "route %q: its gateway %s cannot be reached: no address of a link that is up has it in its network", key, via)
	case len(devs) == 0:
		c.addf(route.Pos, "route %q: its gateway %s cannot be reached by %q: no address of that link has it in its network", key, via, route.Spec.Dev)
	case len(devs) > 1:
		c.addf(route.Pos, "route %q: its gateway %s can be reached by %q and %q, so dev is needed", key, via, devs[0], devs[1])
	default:
		route.Spec.Dev = devs[0]
	}
}

// offered yields the links that reach a network directly: by an address, or by a route without a gateway.
// Such a route serves the routes of its own table, or of every table if it is in main.
func (c *checker) offered(yield func(dev string, at place) bool) {
	for _, a := range c.state.Addresses {
		if c.mayBeUp(a.Spec.Dev) && !yield(a.Spec.Dev, place{network: a.Spec.CIDR, table: anyTable}) {
			return
		}
	}
	for _, r := range c.state.Routes {
		if r.Spec.Via.IsValid() || !c.mayBeUp(r.Spec.Dev) {
			continue
		}
		at := place{network: r.Spec.Dst, table: r.Spec.Table}
		if at.table == TableMain {
			at.table = anyTable
		}
		if !yield(r.Spec.Dev, at) {
			return
		}
	}
}

func (c *checker) checkSysctls() {
	seen := make(map[string]Pos)
	for _, s := range c.state.Sysctls {
		c.twice(seen, "sysctl", s.Spec.Name, s.Pos)
	}
}
