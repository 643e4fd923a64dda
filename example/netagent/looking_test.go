// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// command runs a command in the agent's shell, and returns what it prints.
func (p *process) command(args ...string) string {
	p.Helper()
	p.until("the shell listens", func() bool {
		_, err := os.Stat(p.shell)
		return err == nil
	})
	code, out, stderr := finish(p.T, netagent(p.T, append([]string{"shell", "--shell-sock-path", p.shell}, args...)...))
	require.Zero(p, code, stderr)
	return out
}

// A command, the page and Prometheus all report why an address is missing, and later that it is there.
func TestReasonOfAWaitIsShownEverywhere(t *testing.T) {
	t.Parallel()
	const key = "hand0/10.0.0.1/24"
	p := start(t, write(t, "addresses: [{dev: hand0, cidr: 10.0.0.1/24}]\n"))
	var x inspect.Explanation
	explain := func() inspect.Explanation {
		code, body := p.request("GET", "/debug/reconciler/explain?format=json&reconciler=addresses&key="+key, "")
		x = inspect.Explanation{}
		if code == http.StatusNotFound {
			// The server may answer before the reconcilers have started.
			return x
		}
		require.Equal(t, http.StatusOK, code, body)
		require.NoError(t, json.Unmarshal([]byte(body), &x))
		return x
	}
	p.until("the address waits for its link", func() bool { return explain().State == inspect.StateBlocked })
	assert.Equal(t, `link "hand0" (not asked for here) is missing`, x.BlockedOn)

	text := p.command("reconciler/explain", "addresses", key)
	assert.Contains(t, text, "blocked")
	assert.Contains(t, text, `link "hand0" (not asked for here) is missing`)
	assert.Contains(t, p.command("reconciler"), "netagent/addresses")
	assert.Contains(t, p.command("reconciler/objects", "addresses", "--status=Blocked"), key)
	assert.Regexp(t, key+` +Blocked.*link "hand0"`, p.command("db/show", "addresses-outcomes"))
	code, body := p.request("GET", "/metrics", "")
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, body, `statekeel_blocked_objects{reconciler="netagent/addresses"} 1`)
	assert.NotContains(t, body, "hand0")
	code, page := p.request("GET", "/debug/reconciler/", "")
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, page, "netagent/addresses")

	p.inside(func() error {
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "hand0"}})
	})
	p.until("the address is there", func() bool { return explain().State == inspect.StateDone })
	require.GreaterOrEqual(t, len(x.Operations), 2)
	last := x.Operations[len(x.Operations)-1]
	assert.Equal(t, inspect.ResultDone, last.Result)
	assert.Equal(t, inspect.CauseReleased, last.Cause)
}
