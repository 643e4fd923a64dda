// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package nettest

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

// Greeting is what an endpoint says: its address, and that of the client.
type Greeting struct{ Endpoint, Client netip.AddrPort }

func parseGreeting(text []byte) (a Greeting, err error) {
	endpoint, client, _ := strings.Cut(string(text), " ")
	if a.Endpoint, err = netip.ParseAddrPort(endpoint); err == nil {
		a.Client, err = netip.ParseAddrPort(client)
	}
	return a, err
}

// Ask connects to a service by a protocol, tcp or udp, from the namespace of the calling thread; and from an address, unless
// that is zero.
func Ask(ctx context.Context, protocol string, service, from netip.AddrPort) (Greeting, error) {
	conn, err := Dial(ctx, protocol, service, from)
	if err != nil {
		return Greeting{}, err
	}
	defer func() { _ = conn.Close() }()
	// Who waits for an answer heeds the context too.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if tcp, ok := conn.(*net.TCPConn); ok {
		// No port is kept when this connection is gone, which thousands follow.
		if err := tcp.SetLinger(0); err != nil {
			return Greeting{}, err
		}
		text, err := io.ReadAll(conn)
		if err != nil {
			return Greeting{}, err
		}
		return parseGreeting(text)
	}
	return Exchange(conn)
}

// Dial connects to a service like [Ask]. Whatever is done with the connection has to be done within [Limit].
func Dial(ctx context.Context, protocol string, service, from netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{Timeout: Limit}
	switch {
	case from.IsValid() && protocol == "tcp":
		dialer.LocalAddr = net.TCPAddrFromAddrPort(from)
	case from.IsValid():
		dialer.LocalAddr = net.UDPAddrFromAddrPort(from)
	}
	conn, err := dialer.DialContext(ctx, protocol, service.String())
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(Limit))
	}
	return conn, err
}

// Exchange sends a datagram and waits for the answer.
func Exchange(conn net.Conn) (Greeting, error) {
	if _, err := conn.Write([]byte("hello")); err != nil {
		return Greeting{}, err
	}
	buf := make([]byte, 100)
	size, err := conn.Read(buf)
	if err != nil {
		return Greeting{}, err
	}
	return parseGreeting(buf[:size])
}
