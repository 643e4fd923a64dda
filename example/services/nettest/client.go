// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package nettest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
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
	if tcp, ok := conn.(*net.TCPConn); ok {
		// No port is kept when this connection is gone, which thousands follow.
		if err := tcp.SetLinger(0); err != nil {
			return Greeting{}, err
		}
		// Who waits for an answer heeds the context too.
		defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
		text, err := io.ReadAll(conn)
		if err != nil {
			return Greeting{}, err
		}
		return parseGreeting(text)
	}
	return exchange(ctx, conn)
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

// again is how long a client waits for the answer to a datagram until it sends it again.
const again = 250 * time.Millisecond

// Exchange sends a datagram and waits for the answer, up to [Limit]. It sends again, since
// an answer is lost if its flow is deleted meanwhile.
func Exchange(conn net.Conn) (g Greeting, err error) {
	return exchange(context.Background(), conn)
}

func exchange(ctx context.Context, conn net.Conn) (Greeting, error) {
	buf := make([]byte, 100)
	for deadline := time.Now().Add(Limit); ; {
		if _, err := conn.Write([]byte("hello")); err != nil {
			return Greeting{}, err
		}
		if err := conn.SetReadDeadline(time.Now().Add(again)); err != nil {
			return Greeting{}, err
		}
		size, err := conn.Read(buf)
		switch {
		case err == nil:
			return parseGreeting(buf[:size])
		case !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(deadline) || ctx.Err() != nil:
			return Greeting{}, err
		}
	}
}
