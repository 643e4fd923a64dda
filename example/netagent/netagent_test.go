// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
)

// small is a state that the tests below change.
const small = `links:
  - {name: br0, kind: bridge}
  - {name: a0, kind: veth, peer: a1, master: br0}
addresses:
  - {dev: br0, cidr: 10.0.0.1/24}
routes:
  - {dst: 10.1.0.0/16, via: 10.0.0.2}
  - {dst: 10.2.0.0/16, via: 10.0.0.2, table: 100}
sysctls:
  net.ipv4.ip_forward: 1
`

func TestShippedStateConverges(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile("state.yaml")
	require.NoError(t, err)
	p := start(t, write(t, string(shipped)))
	p.untilHealthy()

	assert.Equal(t, []string{"br-back", "br-front", "db0", "db0-eth", "db1", "db1-eth", "web0", "web0-eth", "web1", "web1-eth"}, p.links())
	assert.Equal(t, []string{"10.10.0.1/24", "fd00:10::1/64"}, p.addresses("br-front"))
	assert.Equal(t, []string{"127.0.0.1/8", "192.0.2.1/32", "::1/128"}, p.addresses("lo"))
	assert.Equal(t, []string{
		"0.0.0.0/0 via 10.10.0.254", "10.30.0.0/16 via 10.20.0.2", "10.40.0.0/16 via 10.20.0.3", "10.50.0.0/24 via <nil>",
	}, p.routes(unix.RT_TABLE_MAIN))
	assert.Equal(t, []string{"0.0.0.0/0 via 10.20.0.254", "10.10.0.0/24 via <nil>"}, p.routes(100))
	assert.Equal(t, "1", p.sysctl("net.ipv4.ip_forward"))
	assert.Equal(t, "2", p.sysctl("net.ipv4.conf.br-front.rp_filter"))
}

func TestIPRouteShowsTheRoutes(t *testing.T) {
	t.Parallel()
	p := start(t, write(t, small))
	p.untilHealthy()
	const want = "10.1.0.0/16 via 10.0.0.2 dev br0 proto 83"
	if _, err := exec.LookPath("ip"); err != nil {
		// Without iproute2 there is no output of ip route to check; this is what it would read.
		require.Equal(t, []string{"10.1.0.0/16 via 10.0.0.2"}, p.routes(unix.RT_TABLE_MAIN))
		return
	}
	var output []byte
	p.inside(func() error {
		var err error
		output, err = exec.Command("ip", "route").CombinedOutput()
		return err
	})
	assert.Contains(t, string(output), want)
	assert.Contains(t, p.command("exec", "ip", "route"), want, "by the shell too")
}

func TestInvalidFileAtTheStartIsReportedUntilItIsGood(t *testing.T) {
	t.Parallel()
	path := write(t, strings.Replace(small, "10.0.0.2}", "10.99.0.2}", 1))
	p := start(t, path)
	const want = `:7:5: route "main/10.1.0.0/16": its gateway 10.99.0.2 cannot be reached: no address of a link that is up has it in its network`
	p.until("the status names the line", func() bool { return strings.Contains(p.ask("netagent/status"), path+want) })
	p.until("so does the log", func() bool { return strings.Contains(p.stderr.String(), strings.ReplaceAll(want, `"`, `\"`)) })
	assert.Empty(t, p.links())
	require.NoError(t, writeFile(path, small))
	p.untilHealthy()
	assert.Equal(t, []string{"a0", "a1", "br0"}, p.links())
	assert.Zero(t, p.stop(syscall.SIGTERM))
}

func TestShellShowsTablesAndRunsCommandsInside(t *testing.T) {
	t.Parallel()
	p := start(t, write(t, small))
	p.untilHealthy()
	out := p.command("db/show", "routes")
	assert.Regexp(t, `(?m)^Table +Dst +Via +Dev +Metric +Scope +Source *$`, out)
	assert.Regexp(t, `(?m)^100 +10\.2\.0\.0/16 +10\.0\.0\.2 +br0 +0 +global +file *$`, out)
	assert.NotContains(t, p.command("db/show", "routes-outcomes"), "10.2.0.0/16", "it is Done")
	inside, err := os.Readlink(filepath.Join("/proc", itoa(p.pid), "ns/net"))
	require.NoError(t, err)
	assert.Equal(t, inside, strings.TrimSpace(p.command("exec", "readlink", "/proc/self/ns/net")))

	code, out, _ := finish(t, netagent(t, "shell", "--shell-sock-path", p.shell, "db/show", "nonsense"))
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "nonsense")
	info, err := os.Stat(p.shell)
	require.NoError(t, err)
	assert.Zero(t, info.Mode().Perm()&0o077, "closed to all other users")
}

// The README says so.
func TestWrongGatewayIsReportedAtLine25(t *testing.T) {
	shipped, err := os.ReadFile("state.yaml")
	require.NoError(t, err)
	_, err = config.Parse("state.yaml", []byte(strings.Replace(string(shipped), "via: 10.20.0.2}", "via: 10.99.0.2}", 1)))
	assert.EqualError(t, err, `state.yaml:25:5: route "main/10.30.0.0/16": its gateway 10.99.0.2 cannot be reached: `+
		"no address of a link that is up has it in its network")
}
