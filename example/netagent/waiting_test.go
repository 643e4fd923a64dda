// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// backwards is a state in which everything comes before its dependencies. Most of it needs two links that
// the state does not have: hand0 and hand1, a bridge.
const backwards = `sysctls:
  net.ipv4.conf.own1.rp_filter: 1
  net.ipv4.conf.hand0.rp_filter: 2
routes:
  - {dst: 10.4.0.0/16, via: 10.3.0.2}
  - {dst: 10.3.0.0/24, dev: hand0}
  - {dst: 10.5.0.0/16, via: 10.0.0.2, table: 100}
  - {dst: "fd01::/48", via: "fd00::2"}
  - {dst: 10.6.0.0/16, via: 10.2.0.2}
addresses:
  - {dev: own1, cidr: 10.2.0.1/24}
  - {dev: hand0, cidr: 10.0.0.1/24}
  - {dev: hand0, cidr: "fd00::1/64"}
links:
  - {name: own0, kind: veth, master: hand1, peer: own1}
`

// waiting lists the objects that wait for hand0 and hand1, and what each waits for.
var waiting = map[string]string{
	"link own0":                            `link "hand1" (not asked for here) is missing`,
	"address hand0/10.0.0.1/24":            `link "hand0" (not asked for here) is missing`,
	"address hand0/fd00::1/64":             `link "hand0" (not asked for here) is missing`,
	"route main/10.4.0.0/16":               `link "hand0" (not asked for here) is missing`,
	"route main/10.3.0.0/24":               `link "hand0" (not asked for here) is missing`,
	"route 100/10.5.0.0/16":                `link "hand0" (not asked for here) is missing`,
	"route main/fd01::/48":                 `link "hand0" (not asked for here) is missing`,
	"sysctl net.ipv4.conf.hand0.rp_filter": `link "hand0" (not asked for here) is missing`,
}

// waits returns the Blocked objects and their reasons.
func (p *process) waits() map[string]string {
	p.Helper()
	blocked := make(map[string]string)
	for line := range strings.Lines(p.ask("netagent/status")) {
		if object, reason, is := strings.Cut(strings.TrimSpace(line), ": Blocked: "); is {
			blocked[object] = reason
		}
	}
	return blocked
}

// untilResyncs waits until the kernel has been listed n more times.
func (p *process) untilResyncs(n int) {
	p.Helper()
	before := p.vars().Prunes
	for _, name := range []string{"netagent/links", "netagent/addresses", "netagent/routes", "netagent/sysctls"} {
		p.until("some more listings", func() bool { return p.vars().Prunes[name] >= before[name]+n })
	}
}

// requireNoFailure checks that no operation failed and no row was in Error.
func (p *process) requireNoFailure() {
	p.Helper()
	for name, failures := range p.vars().Errors {
		require.Zero(p, failures, "%s failed; standard output:\n%s", name, p.stdout)
	}
	require.NotContains(p, p.stdout.String(), " Error")
}

// makeByHand creates the links that the state does not have, as a user would, and returns when it began.
func (p *process) makeByHand() (began time.Time) {
	p.Helper()
	p.inside(func() error {
		began = time.Now()
		hand1 := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "hand1"}}
		hand0 := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "hand0"}, PeerName: "hand0-peer"}
		for _, step := range []func() error{
			func() error { return netlink.LinkAdd(hand1) },
			func() error { return netlink.LinkAdd(hand0) },
			func() error { return netlink.LinkSetUp(hand1) },
			func() error { return netlink.LinkSetUp(hand0) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	return began
}

// removeByHand undoes makeByHand.
func (p *process) removeByHand() {
	p.Helper()
	p.inside(func() error {
		for _, name := range []string{"hand0", "hand1"} {
			link, err := netlink.LinkByName(name)
			if err == nil {
				err = netlink.LinkDel(link)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// requireBackwards checks that the kernel has all objects of the state above.
func (p *process) requireBackwards() {
	p.Helper()
	require.Equal(p, []string{"10.0.0.1/24", "fd00::1/64"}, p.addresses("hand0"))
	require.Equal(p, []string{"10.2.0.1/24"}, p.addresses("own1"))
	require.Equal(p, []string{"10.3.0.0/24 via <nil>", "10.4.0.0/16 via 10.3.0.2", "10.6.0.0/16 via 10.2.0.2"}, p.routes(unix.RT_TABLE_MAIN))
	require.Equal(p, []string{"10.5.0.0/16 via 10.0.0.2"}, p.routes(100))
	require.Equal(p, []string{"hand0", "hand0-peer", "hand1", "own0", "own1"}, p.links())
	require.Equal(p, "2", p.sysctl("net.ipv4.conf.hand0.rp_filter"))
	p.inside(func() error {
		own0, err := netlink.LinkByName("own0")
		if err != nil {
			return err
		}
		hand1, err := netlink.LinkByName("hand1")
		if err != nil {
			return err
		}
		require.Equal(p, hand1.Attrs().Index, own0.Attrs().MasterIndex)
		return nil
	})
}

func TestObjectsWaitForLinksAndConvergeWithinASecond(t *testing.T) {
	t.Parallel()
	p := start(t, write(t, backwards), "-resync", "200ms")
	best := time.Hour
	// A machine that is busy with something else may be late once.
	for range 3 {
		p.until("what can be is Done, and the rest waits", func() bool { return maps.Equal(waiting, p.waits()) })
		p.requireNoFailure()
		p.untilResyncs(3)
		require.Equal(t, waiting, p.waits(), "it still waits")

		began := p.makeByHand()
		p.untilHealthy()
		p.requireBackwards()
		p.requireNoFailure()
		took := lastDone(p, began)
		t.Logf("converged %s after the links were made", took)
		best = min(best, took)

		p.untilResyncs(3)
		p.requireBackwards()
		p.removeByHand()
	}
	assert.Positive(t, best)
	assert.Less(t, best, time.Second)
}

// lastDone returns how long after a time the last row was Done, by the times in the lines that the agent prints: the
// clock is the same, and the time of the test's own reads does not count.
func lastDone(p *process, began time.Time) (took time.Duration) {
	p.Helper()
	for line := range strings.Lines(p.stdout.String()) {
		if words := strings.Fields(line); len(words) == 4 && words[3] == "Done" {
			at, err := time.Parse("2006-01-02T15:04:05.000Z07:00", words[0])
			require.NoError(p, err)
			took = max(took, at.Sub(began))
		}
	}
	return took
}
