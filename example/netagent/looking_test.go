// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// command runs a command in the agent's shell, and returns what it prints.
func (p *process) command(args ...string) string {
	p.Helper()
	p.untilItListens()
	code, out, stderr := finish(p.T, netagent(p.T, append([]string{"shell", "--shell-sock-path", p.shell}, args...)...))
	require.Zero(p, code, stderr)
	return out
}

// The commands report why an address is missing, and later that it is there.
func TestReasonOfAWaitIsShownEverywhere(t *testing.T) {
	t.Parallel()
	const key = "hand0/10.0.0.1/24"
	p := start(t, write(t, "addresses: [{dev: hand0, cidr: 10.0.0.1/24}]\n"))
	p.until("the address waits for its link", func() bool {
		// The shell may answer before the reconcilers have started.
		return strings.Contains(p.ask("netagent/status"), "address "+key+": Blocked")
	})
	x := p.explain("addresses", key)
	assert.Equal(t, inspect.StateBlocked, x.State)
	assert.Equal(t, `link "hand0" (not asked for here) is missing`, x.BlockedOn)

	text := p.command("reconciler/explain", "addresses", key)
	assert.Contains(t, text, "blocked")
	assert.Contains(t, text, `link "hand0" (not asked for here) is missing`)
	assert.Contains(t, p.command("reconciler"), "netagent/addresses")
	assert.Contains(t, p.command("reconciler/objects", "addresses", "--status=Blocked"), key)
	assert.Regexp(t, key+` +Blocked.*link "hand0"`, p.command("db/show", "addresses-outcomes"))
	assert.Regexp(t, `"netagent/addresses": \d`, p.command("netagent/vars"))

	p.inside(func() error {
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "hand0"}})
	})
	p.until("the address is there", func() bool { return p.ask("netagent/status") == "ok, 1 objects are Done" })
	x = p.explain("addresses", key)
	assert.Equal(t, inspect.StateDone, x.State)
	require.GreaterOrEqual(t, len(x.Operations), 2)
	last := x.Operations[len(x.Operations)-1]
	assert.Equal(t, inspect.ResultDone, last.Result)
	assert.Equal(t, inspect.CauseReleased, last.Cause)
}
