// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/fleet/demo"
	"github.com/statekeel/statekeel/example/fleet/feed"
	"github.com/statekeel/statekeel/internal/tests/testlog"
)

// The gateways of the tests, as /proc/net/route has them.
const (
	gateway2 = "0200000A" // 10.0.0.2
	gateway3 = "0300000A" // 10.0.0.3
)

func TestFiveAgentsConvergeAndLeaveNothing(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	cmd := self("-dir", string(dir))
	var out testlog.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	f := follow(t, dir)
	f.until("it has the seed", func() bool {
		read, err := f.read()
		return err == nil && len(read.Agents) == len(agents) && read.Applied()
	})
	check := func(revision uint64, has bool) {
		f.applied(revision, agents...)
		for _, agent := range agents {
			assert.Equal(t, has, f.hasLink(agent, "br1"), agent)
			assert.True(t, f.hasLink(agent, "br0"), agent)
			assert.Equal(t, gateway2, f.gateway(agent), agent)
			assert.Equal(t, "1", strings.TrimSpace(f.inside(agent, "cat", "/proc/sys/net/ipv4/ip_forward")), agent)
		}
	}
	check(f.put("links/br1", "{name: br1, kind: bridge}"), true)
	check(f.del("links/br1"), false)
	f.untilApplied(5)
	assert.Contains(t, f.must("why", "agent-1", "routes/main/10.1.0.0/16"), "done: it is in the target")
	_, err := demo.Start(t.Context(), dir, self)
	require.ErrorContains(t, err, "a fleet runs in")

	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, <-ended, out.String())
	assert.Regexp(t, `agent-5 +yes .* applied`, out.String(), "the view without a terminal")
	assert.NoDirExists(t, string(dir))
	assert.Empty(t, leftovers(t, dir))
}

func TestKilledFleetTakesItsProcessesAlong(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	cmd := self("-dir", string(dir))
	require.NoError(t, cmd.Start())
	f := follow(t, dir)
	f.until("it has the seed", func() bool {
		read, err := f.read()
		return err == nil && len(read.Agents) == len(agents) && read.Applied()
	})
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	f.until("its processes have ended", func() bool { return len(leftovers(t, dir)) == 0 })
	d, err := demo.Start(t.Context(), dir, self)
	require.NoError(t, err, "what is left does not hinder the next")
	require.NoError(t, d.Stop())
	assert.NoDirExists(t, string(dir))
}

func TestAgentsHoldWhileTheStoreIsAway(t *testing.T) {
	f := start(t)
	f.must("store", "stop")
	_, err := f.run("status")
	assert.Equal(t, 1, exitCode(err))
	assert.ErrorContains(t, err, "the store does not answer")
	for _, agent := range []string{"a", "b"} {
		assert.Contains(t, f.must("why", agent, "links/br0"), "done: it is in the target", "the agent answers without a store")
		assert.Equal(t, gateway2, f.gateway(agent))
	}
	// What is undone meanwhile is repaired: the agent needs no store for that.
	f.inside("a", "sh", "-c", "'echo 0 >/proc/sys/net/ipv4/ip_forward'")
	f.until("the sysctl is repaired", func() bool {
		return strings.TrimSpace(f.inside("a", "cat", "/proc/sys/net/ipv4/ip_forward")) == "1"
	})
	f.must("store", "start")
	f.applied(f.put("routes/main/10.1.0.0/16", "{dst: 10.1.0.0/16, via: 10.0.0.3, dev: br0}"), "a", "b")
	assert.Equal(t, gateway3, f.gateway("a"))
	assert.Equal(t, gateway3, f.gateway("b"))
}

func TestKilledAgentComesBack(t *testing.T) {
	f := start(t)
	f.must("kill", "a")
	f.until("its lease has ended", func() bool { a := f.agent("a"); return a.Name == "a" && !a.Alive })
	revision := f.put("links/br1", "{name: br1, kind: bridge}")
	f.applied(revision, "b")
	assert.Less(t, f.agent("a").Revision, revision)
	assert.Regexp(t, `(?m)^a +no .* behind`, f.must("status"))
	_, err := f.run("why", "a", "links/br0")
	assert.ErrorContains(t, err, `agent "a" does not run`)

	f.must("start", "a")
	f.applied(revision, "a", "b")
	assert.True(t, f.hasLink("a", "br1"), "its namespace is a new one")
	f.must("start", "c")
	f.applied(revision, "a", "b", "c")
	for request, want := range map[string]string{"a": "a runs already", "store": "cannot be named", "x/y": "cannot be named"} {
		_, err := f.run("start", request)
		assert.ErrorContains(t, err, want)
	}
}

func TestBadValueIsVisibleAndHurtsNothingElse(t *testing.T) {
	f := start(t)
	const key = "routes/main/10.1.0.0/16"
	f.put(key, "{dst: 10.1.0.0/16, via: nowhere, dev: br0}")
	f.put("links/br1", "{name: br1, kind: bridge}", "links/v", "{name: v, kind: veth, peer: w}")
	for _, agent := range []string{"a", "b"} {
		f.until("it says so", func() bool {
			return f.says(agent, key, `ParseAddr("nowhere")`) && f.says(agent, "links/v", "a veth is two links")
		})
		f.until("other keys are applied", func() bool { return f.hasLink(agent, "br1") })
		assert.Equal(t, gateway2, f.gateway(agent), "the row before stays")
	}
	assert.Contains(t, f.must("status"), `ParseAddr("nowhere")`)
	assert.Contains(t, f.must("why", "b", key), `ParseAddr("nowhere")`)
	f.del("links/v")
	f.applied(f.put(key, "{dst: 10.1.0.0/16, via: 10.0.0.3, dev: br0}"), "a", "b")
	assert.Equal(t, gateway3, f.gateway("a"))

	// A value that decodes and that no kernel can apply.
	const sysctl = "sysctls/net.ipv4.nope"
	f.put(sysctl, "{name: net.ipv4.nope, value: 1}")
	f.until("they say so", func() bool { return f.says("a", "net.ipv4.nope", "unknown") && f.says("b", "net.ipv4.nope", "unknown") })
	assert.Contains(t, f.must("why", "a", sysctl), "unknown in a network namespace")
	f.applied(f.del(sysctl), "a", "b")
}

func TestWrongArgumentsAreReported(t *testing.T) {
	f := &fleet{T: t, dir: newDir(t)}
	for command, want := range map[string]int{"nonsense": 2, "put": 2, "why": 2, "store": 2, "status": 1, "kill x": 1, "put x y": 1} {
		words := strings.Fields(command)
		_, err := f.run(words[0], words[1:]...)
		assert.Equal(t, want, exitCode(err), command)
	}
	_, err := f.run("put", "vlans/x", "{}")
	assert.ErrorContains(t, err, `key "vlans/x" does not begin with one of links/, addresses/, routes/, sysctls/`)
	_, err = f.run("put", "links/x", "{}", "links/y")
	assert.ErrorContains(t, err, `the key "links/y" has no value`)
	open := demo.Dir(t.TempDir())
	require.NoError(t, os.Chmod(string(open), 0o755))
	_, err = demo.Start(t.Context(), open, self)
	assert.ErrorContains(t, err, "closed to others")
}

// No agent acknowledges a revision at which nothing has changed.
func TestDeletionOfAMissingKeyLeavesNoAgentBehind(t *testing.T) {
	f := start(t)
	revision := f.put("links/br1", "{name: br1, kind: bridge}")
	f.applied(revision, "a", "b")
	_, err := f.run("del", "links/br1", "links/none")
	assert.ErrorContains(t, err, `the store has not all of these keys`)
	f.applied(revision, "a", "b")
	assert.True(t, f.hasLink("a", "br1"), "nothing was deleted")
	f.applied(f.del("links/br1"), "a", "b")
}

func TestIdleFleetWritesNothing(t *testing.T) {
	f := start(t)
	var last int64
	var since time.Time
	f.until("the store has one revision for two checks and longer than any lease", func() bool {
		got, err := f.client.Get(t.Context(), feed.Identity)
		require.NoError(t, err)
		if got.Header.Revision != last {
			last, since = got.Header.Revision, time.Now()
		}
		return time.Since(since) > max(2*check, ttl)+time.Second
	})
}
