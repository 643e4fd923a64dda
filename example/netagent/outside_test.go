// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/internal/tests/long"
)

// never is a flag with which only events of the kernel can have something repaired.
const never = "-resync=24h"

// ip changes something in the agent's namespace, as a person does.
func (p *process) ip(args string) {
	p.Helper()
	p.inside(func() error {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
		return nil
	})
}

// look returns what the namespace has of what a state like small asks for.
func (p *process) look() string {
	p.Helper()
	var bridge string
	p.inside(func() error {
		link, err := netlink.LinkByName("br0")
		if err == nil {
			bridge = fmt.Sprint("br0 ", link.Attrs().MTU, " ", link.Attrs().Flags)
		}
		return nil // it may be gone
	})
	if bridge == "" {
		return "no bridge"
	}
	return fmt.Sprint(bridge, p.links(), p.addresses("br0"), p.addresses("lo"), p.routes(254), p.routes(100), p.sysctl("net.ipv4.ip_forward"))
}

func TestWhatIsChangedByHandIsRepairedAtOnce(t *testing.T) {
	t.Parallel()
	// A route for each of its changes: one that is changed again and again is contended.
	more := "\n  - {dst: 10.3.0.0/16, via: 10.0.0.2}\n  - {dst: 10.4.0.0/16, via: 10.0.0.2}\n  - {dst: 10.5.0.0/16, dev: br0}"
	p := start(t, write(t, strings.Replace(small, "table: 100}", "table: 100}"+more, 1)), never)
	p.untilHealthy()
	whole := p.look()
	for _, change := range []string{
		"route flush proto 83",
		"route flush table 100",
		"route del 10.3.0.0/16",
		"route replace 10.4.0.0/16 via 10.0.0.3 proto 83",
		"route add 10.5.0.0/16 via 10.0.0.3 metric 7 proto static",
		"route add 10.66.0.0/16 via 10.0.0.3",
		"addr del 10.0.0.1/24 dev br0",
		"addr flush dev br0",
		"addr add 10.0.0.1/25 dev br0",
		"addr add 10.66.0.1/24 dev lo",
		"link set br0 down",
		"link set br0 mtu 1300",
		"link set a0 nomaster",
		"link del a0",
		"link del br0",
	} {
		p.ip(change)
		t.Logf("%3d ms: ip %s", p.repaired(whole).Milliseconds(), change)
	}
	p.inside(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0) })
	t.Logf("%3d ms: ip_forward", p.repaired(whole).Milliseconds())
	p.untilHealthy()
}

// repaired waits until the namespace is as it was, and returns how long that took. Then it lets the agent come to rest, so
// that each change is one for itself.
func (p *process) repaired(whole string) time.Duration {
	p.Helper()
	began := time.Now()
	p.until("it is repaired", func() bool { return p.look() == whole })
	took := time.Since(began)
	time.Sleep(200 * time.Millisecond)
	p.until("it stays repaired", func() bool { return p.look() == whole })
	return took
}

// cpu returns the processor time of the agent.
func (p *process) cpu() time.Duration {
	p.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	require.NoError(p, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var user, system time.Duration
	_, err = fmt.Sscan(fields[11]+" "+fields[12], (*int64)(&user), (*int64)(&system))
	require.NoError(p, err)
	return (user + system) * 10 * time.Millisecond
}

// countRepairs counts, from now on, how often a route to a destination is made.
func (p *process) countRepairs(dst string) *atomic.Int64 {
	p.Helper()
	n, updates, done, ended := new(atomic.Int64), make(chan netlink.RouteUpdate), make(chan struct{}), make(chan struct{})
	p.inside(func() error { return netlink.RouteSubscribe(updates, done) })
	go func() {
		defer close(ended)
		for update := range updates { // until done closes it
			if update.Type == unix.RTM_NEWROUTE && update.Dst.String() == dst {
				n.Add(1)
			}
		}
	}()
	p.Cleanup(func() { close(done); <-ended })
	return n
}

// Another program deletes a route again and again. With STATEKEEL_LONG it does so for longer.
func TestRouteThatAnotherProgramDeletesIsContended(t *testing.T) {
	t.Parallel()
	const key = "main/10.1.0.0/16"
	p := start(t, write(t, small), never)
	p.untilHealthy()
	whole := p.look()
	var other *exec.Cmd
	p.inside(func() error {
		other = exec.Command("sh", "-c", "while :; do ip route del 10.1.0.0/16 2>/dev/null; sleep 0.02; done")
		return other.Start()
	})
	defer func() { _ = other.Process.Kill() }()
	began := time.Now()
	contended := func(text string) bool { return strings.Contains(text, "contended: ") }
	p.until("the status says so", func() bool { return contended(p.ask("netagent/status")) })
	require.Less(t, time.Since(began), time.Minute)
	t.Logf("contended after %v", time.Since(began))
	assert.True(t, contended(p.explain("routes", key).Error), "%+v", p.explain("routes", key))
	p.until("health says so", func() bool { return strings.Contains(p.ask("netagent/status"), "do not hold") })
	assert.Equal(t, 1, p.vars().Figures["netagent/routes"].Unheld)

	// Nothing is asked of the agent meanwhile: from one repair to a later one.
	repairs := p.countRepairs("10.1.0.0/16")
	until := func(n int) { p.until("it is repaired", func() bool { return repairs.Load() >= int64(n) }) }
	until(1)
	before, since := p.cpu(), time.Now()
	for n := range long.Times(6) { // the patience is for each
		until(2 + n)
	}
	took := time.Since(since)
	share := float64(p.cpu()-before) / float64(took)
	t.Logf("%.2f %% of a processor during %v of the fight", 100*share, took)
	assert.Less(t, share, 0.05, "with -race")
	assert.True(t, contended(p.ask("netagent/status")))

	require.NoError(t, other.Process.Kill())
	_ = other.Wait() // it was killed
	ended := time.Now()
	p.untilHealthy()
	t.Logf("at peace after %v", time.Since(ended))
	assert.Less(t, time.Since(ended), time.Minute)
	assert.Equal(t, whole, p.look())
	assert.Zero(t, p.vars().Figures["netagent/routes"].Unheld)
}
