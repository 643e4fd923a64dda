// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/internal/nettest"
	"github.com/statekeel/statekeel/example/services/kernel"
)

// A service may get the address of a server. Connections of TCP that the server has stay; new ones go to the service.
func TestConnectionsOfAServerStayWhenAServiceGetsItsAddress(t *testing.T) {
	n := nettest.NewNetwork(t)
	p, err := startedProgram(t.Context(), openTable(t, n.Node))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop(quiet, context.Background())) })
	// Without a rule that needs conntrack, the node may not know the connection.
	require.NoError(t, p.write(message{Rows: []*Service{service("web", web, 0)}}))
	_, err = p.wait(t.Context())
	require.NoError(t, err)

	var conn net.Conn
	n.Client.Do(func() (err error) {
		conn, err = nettest.Dial(context.Background(), "tcp", nettest.Echo, netip.AddrPort{})
		return err
	})
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	hello := func() {
		require.NoError(t, conn.SetDeadline(time.Now().Add(nettest.Limit)))
		_, err := conn.Write([]byte("hello"))
		require.NoError(t, err)
		size, err := conn.Read(make([]byte, 10))
		require.NoError(t, err)
		require.Equal(t, 5, size)
	}
	hello()
	require.NoError(t, p.write(message{Rows: []*Service{service("echo", kernel.Service{Protocol: kernel.TCP, Address: nettest.Echo}, 1)}}))
	_, err = p.wait(t.Context())
	require.NoError(t, err)
	hello()
	p.loop.Resync()
	time.Sleep(200 * time.Millisecond)
	hello()
}
