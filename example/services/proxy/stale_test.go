// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler"
)

// A node runs for months, and services come and go.
func TestNothingIsKeptOfAServiceThatIsGone(t *testing.T) {
	ops := newOperations(openInNamespace(t))
	endpoint := netip.MustParseAddrPort("10.2.0.1:53")
	for _, protocol := range []kernel.Protocol{kernel.TCP, kernel.UDP} {
		f := &Frontend{
			At:        kernel.Service{Protocol: protocol, Address: netip.MustParseAddrPort("10.96.0.1:53")},
			Endpoints: []netip.AddrPort{endpoint},
		}
		entry := []reconciler.BatchEntry[*Frontend]{{Object: f}}
		for range 2 {
			ops.ProcessRound(t.Context(), nil, nil, entry)
			require.NoError(t, entry[0].Result)
			require.Empty(t, ops.stale)
		}
		ops.ProcessRound(t.Context(), nil, entry, nil)
		require.NoError(t, entry[0].Result)
	}
	require.Empty(t, ops.stale)
	require.Empty(t, ops.have)
}

// openInNamespace opens a table in a network namespace of its own, which its socket keeps.
func openInNamespace(t *testing.T) (table *kernel.Table) {
	opened := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			table, err = kernel.Open("test")
		}
		opened <- err
	}()
	require.NoError(t, <-opened)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table
}
