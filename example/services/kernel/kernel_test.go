// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/sandbox"
)

func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	inside, err := sandbox.Inside()
	if err == nil && !inside {
		var code int
		if code, err = sandbox.Run(os.Args[1:]); err == nil {
			os.Exit(code)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func nft(t *testing.T, args ...string) {
	cmd := exec.Command("/tmp/w/layout/root/usr/sbin/nft", args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH=/tmp/w/layout/root/usr/lib/x86_64-linux-gnu")
	out, err := cmd.CombinedOutput()
	t.Logf("nft %v: %v\n%s", args, err, out)
}

func TestFirst(t *testing.T) {
	runtime.LockOSThread()
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	table, err := Open("services")
	require.NoError(t, err)
	b := table.NewBatch()
	svc := Service{TCP, netip.MustParseAddrPort("10.96.0.1:80")}
	b.SetSlot(Slot{svc, 0}, netip.MustParseAddrPort("10.1.0.2:8080"))
	b.SetSlot(Slot{svc, 1}, netip.MustParseAddrPort("10.1.0.3:8080"))
	b.SetSlot(Slot{svc, 2}, netip.MustParseAddrPort("10.1.0.4:8080"))
	b.SetCount(svc, 3)
	b.SetCount(Service{UDP, netip.MustParseAddrPort("10.96.0.1:53")}, 0)
	require.NoError(t, b.Commit())
	l, err := table.List()
	require.NoError(t, err)
	t.Log(l)
	nft(t, "list", "ruleset")
	require.NoError(t, table.DeleteFlows(Flow{svc, netip.MustParseAddrPort("10.1.0.4:8080")}))
}
