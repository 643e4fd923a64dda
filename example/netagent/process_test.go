// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

func itoa(n int) string { return strconv.Itoa(n) }

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) }

func TestHostIsNotChanged(t *testing.T) {
	t.Parallel()
	before := describeHost(t)
	p := start(t, write(t, small+"  net.ipv4.ip_default_ttl: 99\n"))
	p.untilHealthy()
	require.Equal(t, "99", p.sysctl("net.ipv4.ip_default_ttl"))
	assert.Equal(t, before, describeHost(t))

	for _, ns := range []string{"net", "user"} {
		here, err := os.Readlink("/proc/self/ns/" + ns)
		require.NoError(t, err)
		inside, err := os.Readlink(filepath.Join("/proc", itoa(p.pid), "ns", ns))
		require.NoError(t, err)
		assert.NotEqual(t, here, inside)
	}
}

// describeHost returns the links, the routes and some settings of the tests' namespace.
func describeHost(t *testing.T) (all []string) {
	links, err := netlink.LinkList()
	require.NoError(t, err)
	for _, l := range links {
		all = append(all, l.Attrs().Name)
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{}, netlink.RT_FILTER_TABLE)
	require.NoError(t, err)
	for _, r := range routes {
		all = append(all, r.String())
	}
	for _, name := range []string{"ip_forward", "ip_default_ttl"} {
		value, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
		require.NoError(t, err)
		all = append(all, name+" "+string(value))
	}
	return all
}

func TestNoRootIsNeeded(t *testing.T) {
	t.Parallel()
	path := write(t, small)
	cmd := netagent(t, "-state", path, "-shell", shellOf(path))
	cmd.Path = executableForAnybody(t)
	if canBecomeNobody() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	p := startCommand(t, cmd)
	p.untilHealthy()
	assert.Equal(t, []string{"a0", "a1", "br0"}, p.links())
	assert.Equal(t, []string{"10.1.0.0/16 via 10.0.0.2"}, p.routes(254))
	assert.Equal(t, "1", p.sysctl("net.ipv4.ip_forward"))
}

// canBecomeNobody reports whether the tests run as the host's root; if not, they and the agent run as an
// unprivileged user.
func canBecomeNobody() bool {
	uids, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Contains(string(uids), "4294967295")
}

// executableForAnybody returns the path of a copy of this program that every user can run, since the
// directories of the original may be closed to them. Another process makes the copy: a file that this process has open
// for writing is open in each process that a test beside forks at that moment, and cannot be run until that has ended.
func executableForAnybody(t *testing.T) string {
	program, err := os.Executable()
	require.NoError(t, err)
	path := filepath.Join(shortDir(t), "netagent")
	out, err := exec.Command("install", "-m", "755", program, path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

func TestForbiddenNamespacesAreExplained(t *testing.T) {
	t.Parallel()
	cmd := netagent(t, "-state", write(t, small), "-shell", "")
	cmd.Env = append(cmd.Env, asVariable+"="+asForbidden)
	// In a user namespace of its own, in which it then forbids more of them.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	code, stdout, stderr := finish(t, cmd)
	assert.Equal(t, 1, code)
	assert.Empty(t, stdout)
	assert.Equal(t, `the system forbids user and network namespaces: fork/exec /proc/self/exe: no space left on device
user.max_user_namespaces is 0: enable them by
    sudo sysctl -w user.max_user_namespaces=10000
`, stderr)
}

func TestSignalsStopBothProcesses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		signal syscall.Signal
		group  bool // as a terminal sends it
		code   int
	}{
		"interrupt": {syscall.SIGINT, false, 0}, "terminate": {syscall.SIGTERM, false, 0},
		"interrupt both": {syscall.SIGINT, true, 0}, "kill the outer one": {syscall.SIGKILL, false, -1},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, small)
			cmd := netagent(t, "-state", path, "-shell", shellOf(path))
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: test.group}
			p := startCommand(t, cmd)
			p.untilHealthy()
			if test.group {
				require.NoError(t, syscall.Kill(-cmd.Process.Pid, test.signal))
				test.signal = 0
			}
			assert.Equal(t, test.code, p.stop(test.signal), "standard error:\n%s", p.stderr)
			eventually(t, "the inner process ends", func() bool {
				_, err := os.Stat(filepath.Join("/proc", itoa(p.pid)))
				return os.IsNotExist(err)
			})
		})
	}
}

func TestSecondAgentDoesNotTakeTheFirstOnesShell(t *testing.T) {
	t.Parallel()
	p := start(t, write(t, small))
	p.untilHealthy()
	code, _, stderr := finish(t, netagent(t, "-state", write(t, small), "-shell", p.shell))
	assert.Equal(t, 1, code)
	assert.Equal(t, "another program listens on \""+p.shell+"\" (choose another by -shell)\n", stderr)
}
