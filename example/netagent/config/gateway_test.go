// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file may have ten thousand addresses and ten thousand routes.
func TestGatewaySearchDoesNotGrowWithAddresses(t *testing.T) {
	const n = 10_000
	for name, test := range map[string]struct {
		address  func(i int) Address
		route    func(i int) Route
		perRoute int
	}{
		"a network for each address": {
			address:  func(i int) Address { return Address{"v0", netip.PrefixFrom(ip4(10, i<<8|1), 24)} },
			route:    func(i int) Route { return Route{Via: ip4(10, i<<8|2)} },
			perRoute: 2,
		},
		"one network on many links": {
			address:  func(i int) Address { return Address{fmt.Sprint("v", i), netip.PrefixFrom(ip4(10, i<<1|1), 8)} },
			route:    func(i int) Route { return Route{Via: ip4(10, i<<1|2), Dev: fmt.Sprint("v", n-1)} },
			perRoute: 2,
		},
		"gateways that are in many networks": {
			address:  func(i int) Address { return Address{"v0", netip.PrefixFrom(ip6(i|1<<15), 8+i%120)} },
			route:    func(i int) Route { return Route{Via: ip6(1<<16 | i)} },
			perRoute: 121,
		},
	} {
		state := &State{}
		for i := range n {
			route := test.route(i)
			route.Table, route.Dst = TableMain, netip.PrefixFrom(ip4(20, i), 32)
			state.Addresses = append(state.Addresses, known(test.address(i)))
			state.Routes = append(state.Routes, known(route))
		}
		c := checker{state: state}
		c.checkRoutes()
		assert.NoError(t, c.problems.err(), name)
		assert.LessOrEqual(t, c.neighbours.looked, n*test.perRoute, name)
	}
}

func ip4(net, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(net), byte(host >> 16), byte(host >> 8), byte(host)})
}

func ip6(host int) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfd, 13: byte(host >> 16), 14: byte(host >> 8), 15: byte(host)})
}

func TestGatewaySearchAgreesWithAFullSearch(t *testing.T) {
	for seed := range uint64(2_000) {
		random := rand.New(rand.NewPCG(seed, 0))
		c := checker{state: randomState(random), links: map[string]Located[Link]{
			"v0": known(Link{Up: true}), "v1": known(Link{Up: true}), "down": known(Link{}),
		}}
		c.checkRoutes()
		for range 20 {
			host, dev, table := randomHost(random), pick(random, "", "", "v0", "v1", "v2", "down"), pick(random, TableMain, 7, 8)
			all, some := c.searchAll(host, dev, table), c.neighbours.reach(host, dev, table)
			// Of more than two, any two.
			require.Len(t, some, min(len(all), 2), "seed %d: %s by %q in %s", seed, host, dev, table)
			require.Subset(t, all, some, "seed %d: %s by %q in %s", seed, host, dev, table)
		}
	}
}

// searchAll returns all links of which reach returns two, by a search of all addresses and routes.
func (c *checker) searchAll(host netip.Addr, dev string, table Table) (devs []string) {
	longest := -1
	look := func(by string, network netip.Prefix, reaches bool) {
		if !reaches || !c.mayBeUp(by) || dev != "" && dev != by || network.Bits() < longest {
			return
		}
		if network.Bits() > longest {
			longest, devs = network.Bits(), nil
		}
		if !slices.Contains(devs, by) {
			devs = append(devs, by)
		}
	}
	for _, a := range c.state.Addresses {
		look(a.Spec.Dev, a.Spec.CIDR, a.Spec.Reaches(host))
	}
	for _, r := range c.state.Routes {
		look(r.Spec.Dev, r.Spec.Dst, r.Spec.Reaches(host, table))
	}
	return devs
}

// randomState returns addresses and routes in a few overlapping networks.
func randomState(random *rand.Rand) *State {
	state := &State{}
	for range random.IntN(8) {
		state.Addresses = append(state.Addresses, known(Address{
			Dev: pick(random, "v0", "v1", "v2", "down"), CIDR: randomNetwork(random, 1),
		}))
	}
	for range random.IntN(8) {
		route := Route{Table: pick(random, TableMain, 7, 8), Dst: randomNetwork(random, 0).Masked(), Dev: pick(random, "v0", "v1", "v2", "down")}
		if random.IntN(4) == 0 {
			route.Via = randomHost(random)
		}
		state.Routes = append(state.Routes, known(route))
	}
	return state
}

// randomNetwork returns a prefix of a random host, with at least the given length.
func randomNetwork(random *rand.Rand, least int) netip.Prefix {
	host := randomHost(random)
	return netip.PrefixFrom(host, pick(random, least, 8, host.BitLen()-random.IntN(6), host.BitLen()))
}

func randomHost(random *rand.Rand) netip.Addr {
	if random.IntN(3) == 0 {
		return ip6(random.IntN(32))
	}
	return ip4(10, random.IntN(32))
}

func known[Spec any](spec Spec) Located[Spec] { return Located[Spec]{Spec: spec, Pos: Pos{"f", 1, 1}} }

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }
